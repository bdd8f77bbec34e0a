"""Snapshots, branches and trees as they were: each fact from the event on that brought it."""

from typing import Any

from ledger.store.sqlite import Database
from projections.compare import differences
from projections.documents import Documents
from projections.warehouse import Warehouse
from tests import make

CHILD = "00000000000000c1"
OTHER = "00000000000000c2"
SOURCE = make.origin("20", 20)
PARENT: list[make.Made] = [make.training(), make.steps(20), make.saved(20)]
SAVED = len(make.recorded(PARENT))  # position of the commit


def documents(*made: make.Made) -> Documents:
    history = make.History(PARENT, *made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    return documents


def through(made: Documents, member: str) -> list[Any]:
    """A member of the parent's snapshot after each event, from its commit on."""
    positions = range(SAVED, made.position() + 1)
    return [made.snapshots(make.RUN, upto)[0][member] for upto in positions]


def test_a_snapshot_that_was_committed_later_is_not_there_yet() -> None:
    """I7, I9: offered files are no snapshot."""
    made = documents()

    assert made.snapshots(make.RUN, SAVED - 1) == []
    assert made.snapshots(make.RUN, SAVED) == made.snapshots(make.RUN)


def test_a_pin_counts_from_its_event_to_the_one_that_takes_it_away() -> None:
    """I10."""
    made = documents(make.pinned("20"), make.unpinned("20"), make.pinned("20"))

    assert through(made, "pinned") == [False, True, False, True]


def test_a_hold_counts_from_its_event_to_its_release_and_may_come_again() -> None:
    """I10, D11: held twice by the same run is held once."""
    made = documents(
        make.snapshot_held(SOURCE, CHILD),
        make.snapshot_held(SOURCE, OTHER),
        make.snapshot_held(SOURCE, CHILD),
        make.snapshot_released(SOURCE, CHILD),
        make.snapshot_held(SOURCE, CHILD),
    )

    assert through(made, "heldBy") == [
        [],
        [CHILD],
        [CHILD, OTHER],
        [CHILD, OTHER],
        [OTHER],
        [CHILD, OTHER],
    ]


def test_what_was_swept_was_there_before_kind_by_kind() -> None:
    """I10, I11: with the bytes that were kept then, and the moment of the newest sweep."""
    made = documents(
        make.swept("20", ("trainingState",), at=90), make.swept("20", ("weights",), at=95)
    )

    assert through(made, "artifacts") == [["weights", "trainingState"], ["weights"], []]
    assert through(made, "status") == ["committed", "committed", "swept"]
    assert through(made, "restorable") == [True, False, False]
    weights = make.SIZES["weights"]
    assert through(made, "sizeBytes") == [weights + make.SIZES["trainingState"], weights, 0]
    assert through(made, "sweptAt") == [
        None,
        "2026-12-01T08:01:30.000Z",
        "2026-12-01T08:01:35.000Z",
    ]


def test_damage_and_a_restore_below_a_step_count_from_their_events_on() -> None:
    """D5, S27: superseded by the restore, then damaged as well."""
    made = documents(make.restored(10, attempt=1), make.damaged("20"))

    assert through(made, "status") == ["committed", "superseded", "damaged"]
    assert through(made, "damage") == [None, None, "a file has other bytes"]
    assert through(made, "restorable") == [True, False, False]


def test_a_second_restore_below_the_same_snapshot_changes_nothing_of_it() -> None:
    """D5: and keeps no row of it, whatever the number of restores."""
    made = documents(make.restored(10, attempt=1), make.restored(5, attempt=1))

    assert through(made, "status") == ["committed", "superseded", "superseded"]
    assert [each["position"] for each in made.whole(make.RUN).past] == [SAVED, SAVED + 1]


def test_a_branch_is_as_far_as_it_was() -> None:
    """I12, S157: requested, its source held, then created or refused, and not there before."""
    story = make.branched(CHILD, SOURCE)
    made = documents(story, make.branch_requested(OTHER, SOURCE), make.branch_refused(OTHER, "no"))

    def states(upto: int) -> list[str]:
        return [each["state"] for each in made.branches(make.RUN, upto=upto)]

    assert [states(SAVED + n) for n in range(8)] == [
        [],
        ["requested"],
        ["requested"],
        ["preparing"],
        ["preparing"],
        ["created"],
        ["requested", "created"],
        ["refused", "created"],
    ]
    (undecided, _) = made.branches(make.RUN, upto=SAVED + 6)
    assert undecided["refusal"] is None
    assert made.branch(make.RUN, make.token(OTHER), SAVED + 5) is None


def test_a_tree_has_the_runs_names_and_phases_of_then() -> None:
    """I13: a child from its submission on."""
    made = documents(
        make.branched(CHILD, SOURCE, name="child"),
        make.annotated(name="renamed"),
        make.training(CHILD)[1:],
    )

    def told(upto: int) -> list[tuple[str, Any, str]]:
        runs = [made.tree(make.RUN, upto)]
        runs += runs[0]["children"] if runs[0] else []
        return [(each["runId"], each["name"], each["phase"]) for each in runs if each]

    assert told(SAVED + 3) == [(make.RUN, None, "TRAINING")]
    assert told(SAVED + 4) == [
        (make.RUN, None, "TRAINING"),
        (CHILD, "child", "SUBMITTED"),
    ]
    assert told(made.position()) == [
        (make.RUN, "renamed", "TRAINING"),
        (CHILD, "child", "TRAINING"),
    ]
    line = made.ancestry(CHILD, SAVED + 5)
    assert [(each["runId"], each["name"], each["phase"]) for each in line] == told(SAVED + 5)


def test_what_was_changed_in_the_past_of_a_snapshot_is_named() -> None:
    """The audit compares it with a replay, as it compares what is true now."""
    history = make.History(PARENT, make.pinned("20"), make.unpinned("20"))
    database, warehouse = Database(":memory:"), Warehouse(":memory:")
    live = Documents(database, history)
    live.apply(history.events)
    warehouse.apply(history.events)

    with database.write() as connection:
        connection.execute("UPDATE snapshot_past SET pinned = 0")

    (found,) = differences(history, live, warehouse)
    warehouse.close()
    place = f"{make.snapshot_id('20')}.{SAVED + 1}"
    assert found.detail == f"snapshotsBefore.{place}.pinned differs from the ledger"
