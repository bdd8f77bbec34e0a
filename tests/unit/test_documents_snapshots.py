"""The table of snapshots, and which of them a run would go on from."""

from typing import Any

import pytest

from ledger.events import Artifact
from ledger.store.sqlite import Database
from projections.documents import Documents, catalogue
from tests import make

OTHER = "00000000000000bb"
STATE: tuple[Artifact, ...] = ("trainingState",)
WEIGHTS: tuple[Artifact, ...] = ("weights",)


def documents(*made: make.Made) -> Documents:
    history = make.History(*made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    return documents


def snapshots(*made: make.Made) -> list[dict[str, Any]]:
    return documents(*made).snapshots(make.RUN)


def only(*made: make.Made) -> dict[str, Any]:
    (snapshot,) = snapshots(*made)
    return snapshot


def saved(*made: make.Made) -> int | None:
    """The saved step, as the record says it twice."""
    record = documents(*made).get(make.RUN)
    assert record is not None
    step: int | None = record["savedStep"]
    assert (None if record["saved"] is None else record["saved"]["step"]) == step
    return step


# -- the table -------------------------------------------------------------------------------------


def test_a_snapshot_says_what_it_is_and_where() -> None:
    """I7, I8."""
    found = only(
        make.training(),
        make.offered(20),
        make.committed("20", 20, at=70, epoch=0.5),
    )

    assert found == {
        "snapshotId": make.snapshot_id("20"),
        "runId": make.RUN,
        "attempt": 1,
        "step": 20,
        "epoch": 0.5,
        "artifacts": ["weights", "trainingState"],
        "sizeBytes": 30,
        "sizes": {"weights": 10, "trainingState": 20},
        "digests": {
            "weights": make.snapshot_id("20 weights"),
            "trainingState": make.snapshot_id("20 trainingState"),
        },
        "uri": "file:///store/20",
        "status": "committed",
        "restorable": True,
        "pinned": False,
        "heldBy": [],
        "committedAt": "2026-12-01T08:01:10.000Z",
        "sweptAt": None,
        "damage": None,
    }


def test_what_is_not_committed_is_not_listed() -> None:
    """I9: neither an offer nor what was rejected."""
    offered: list[make.Made] = [make.training(), make.offered(20)]

    assert snapshots(offered) == []
    assert snapshots(offered, make.snapshot_rejected(20, "a file is missing")) == []


def test_snapshots_are_listed_in_the_order_of_the_ledger() -> None:
    """C26: not in that of their steps."""
    found = snapshots(
        make.training(),
        make.saved(10, "a"),
        make.saved(30, "b"),
        make.lost(1),
        make.opened(2),
        make.begun_from(10, 2),
        make.saved(20, "c", attempt=2),
    )

    assert [(each["step"], each["attempt"]) for each in found] == [(10, 1), (30, 1), (20, 2)]


def test_weights_alone_cannot_be_gone_on_from() -> None:
    """I11."""
    found = only(
        make.training(),
        make.offered(20, artifacts=WEIGHTS),
        make.committed("20", 20, artifacts=WEIGHTS),
    )

    assert (found["artifacts"], found["restorable"]) == (["weights"], False)
    assert found["status"] == "committed"


def test_a_snapshot_whose_training_state_alone_was_swept_stays_committed() -> None:
    """I7, I10, I11."""
    found = only(make.training(), make.saved(20), make.swept("20", STATE, at=90))

    assert (found["status"], found["restorable"]) == ("committed", False)
    assert (found["artifacts"], found["sizeBytes"]) == (["weights"], 10)
    assert found["sizes"] == {"weights": 10, "trainingState": 20}
    assert found["sweptAt"] == "2026-12-01T08:01:30.000Z"


def test_a_snapshot_of_which_nothing_is_left_is_swept_and_stays_listed() -> None:
    """I7, I10."""
    found = only(
        make.training(),
        make.saved(20),
        make.swept("20", STATE, at=90),
        make.damaged("20"),
        make.snapshots_superseded(10),
        make.swept("20", WEIGHTS, at=95),
    )

    assert (found["status"], found["artifacts"], found["sizeBytes"]) == ("swept", [], 0)
    assert found["sweptAt"] == "2026-12-01T08:01:35.000Z"


def test_a_damaged_snapshot_says_why() -> None:
    """I9."""
    found = only(make.training(), make.saved(20), make.damaged("20"))

    assert (found["status"], found["restorable"]) == ("damaged", False)
    assert found["damage"] == "a file has other bytes"


def test_snapshots_later_than_a_restore_stay_listed_as_superseded() -> None:
    """D5: and their files are still there."""
    found = snapshots(
        make.training(),
        make.saved(20),
        make.saved(40),
        make.lost(1),
        make.opened(2),
        make.begun_from(20, 2),
    )

    assert [(each["status"], each["restorable"]) for each in found] == [
        ("committed", True),
        ("superseded", False),
    ]
    assert found[1]["artifacts"] == ["weights", "trainingState"]


def test_what_was_offered_before_a_trainer_went_back_is_superseded_when_it_is_committed() -> None:
    """C26: a commit may come late; what was offered after going back is not."""
    found = snapshots(
        make.training(),
        make.offered(10),
        make.offered(20),
        make.committed("10", 10),
        make.snapshots_superseded(15),
        make.restored(15, attempt=1),
        make.offered(20),
        make.committed("20", 20),
        make.committed("20 again", 20),
    )

    assert [each["status"] for each in found] == ["committed", "superseded", "committed"]


def test_an_offer_that_was_rejected_is_out_of_the_line() -> None:
    found = snapshots(
        make.training(),
        make.offered(20),
        make.snapshots_superseded(15),
        make.offered(16),
        make.snapshot_rejected(20, "a file is missing"),
        make.committed("16", 16),
    )

    assert [(each["step"], each["status"]) for each in found] == [(16, "committed")]


def test_a_pin_holds_until_it_is_taken_off() -> None:
    """I10."""
    pinned: list[make.Made] = [make.training(), make.saved(20), make.pinned("20")]

    assert only(pinned)["pinned"] is True
    assert only(pinned, make.unpinned("20"))["pinned"] is False


def test_snapshots_of_all_runs_are_found_by_the_beginning_of_their_ids() -> None:
    """I8: the same files may be a snapshot of two runs."""
    made = documents(
        make.training(),
        [make.saved(n) for n in (10, 20, 30)],
        make.training(OTHER),
        make.saved(10, run=OTHER),
    )

    first = make.snapshot_id("10")
    assert [each["runId"] for each in made.snapshot(first[:6])] == [make.RUN, OTHER]
    assert [each["snapshotId"] for each in made.snapshot(first)] == [first, first]
    assert [each["step"] for each in made.snapshot(make.snapshot_id("20")[:8])] == [20]
    assert made.snapshot("%") == []
    everything = [each["snapshotId"] for each in made.snapshot("")]
    assert everything == sorted(everything)
    assert len(made.snapshot("", limit=2)) == 2


def test_events_that_tell_nothing_of_files_change_nothing() -> None:
    assert list(catalogue.changes(make.step(1), 1)) == []


def test_a_run_without_snapshots_has_an_empty_list() -> None:
    assert snapshots(make.training()) == []
    assert snapshots() == []


# -- what the next attempt would go on from --------------------------------------------------------


def test_the_saved_step_is_the_newest_snapshot_that_can_be_restored() -> None:
    """S10, S27: with its id and epoch."""
    record = documents(
        make.training(), make.saved(20), make.offered(40), make.committed("40", 40, epoch=1.25)
    ).get(make.RUN)

    assert record is not None
    assert record["savedStep"] == 40
    assert record["saved"] == {"snapshotId": make.snapshot_id("40"), "step": 40, "epoch": 1.25}


def test_without_a_snapshot_there_is_no_saved_step() -> None:
    """S27: an offer is none."""
    assert saved(make.training()) is None
    assert saved(make.training(), make.offered(20)) is None


def test_when_the_newest_snapshot_is_damaged_the_one_before_is_saved() -> None:
    """S27."""
    history: list[make.Made] = [make.training(), make.saved(20), make.saved(40), make.damaged("40")]

    assert saved(history) == 20
    assert saved(history, make.damaged("20")) is None


@pytest.mark.parametrize("swept", [STATE, WEIGHTS, make.BOTH])
def test_a_snapshot_that_is_not_whole_any_more_is_not_saved(swept: tuple[Artifact, ...]) -> None:
    """S27, I11."""
    history: list[make.Made] = [make.training(), make.saved(20), make.saved(40)]

    assert saved(history, make.swept("40", swept)) == 20


def test_weights_alone_are_not_saved() -> None:
    """S27, I11."""
    later = [make.offered(40, artifacts=WEIGHTS), make.committed("40", 40, artifacts=WEIGHTS)]

    assert saved(make.training(), make.saved(20), later) == 20


def test_of_snapshots_the_ledger_says_which_is_the_newest() -> None:
    """C26: 10, 20, 30, back to 10, then 20 anew: that one is saved, not the old 30."""
    old = [make.saved(n, f"old {n}") for n in (10, 20, 30)]
    begun: list[make.Made] = [make.training(), old, make.lost(1)]
    back: list[make.Made] = [*begun, make.opened(2), make.begun_from(10, 2)]

    assert saved(begun) == 30
    assert saved(back) == 10
    assert saved(back, make.saved(20, "new 20", attempt=2)) == 20
    found = snapshots(back, make.saved(20, "new 20", attempt=2))
    assert [each["snapshotId"] for each in found if each["restorable"]] == [
        make.snapshot_id("old 10"),
        make.snapshot_id("new 20"),
    ]


def test_a_trainer_that_goes_back_by_itself_supersedes_snapshots_as_well() -> None:
    """S27, D5."""
    history: list[make.Made] = [make.training(), make.steps(40), make.saved(20), make.saved(40)]

    assert saved(history, make.snapshots_superseded(30)) == 20
    assert saved(history, make.restored(30, attempt=1)) == 20


# -- beside the documents --------------------------------------------------------------------------


def test_a_run_of_thousands_of_snapshots_has_a_small_document() -> None:
    """The state is what is written with every batch."""
    few = documents(make.training(), make.saved(1))
    many = documents(make.training(), [make.saved(n) for n in range(1, 2001)])

    small, large = few.row(make.RUN), many.row(make.RUN)

    assert small is not None
    assert large is not None
    assert len(large.stored()[-1]) - len(small.stored()[-1]) < 50
    assert len(many.snapshots(make.RUN)) == 2000
