"""Branches beside the documents: what was asked for, who came from whom, and who holds what."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from eventsourcing.persistence import IntegrityError

from ledger.events import SnapshotOffered
from ledger.store.sqlite import Database
from projections.digest import config_sha256
from projections.documents import Documents, branches, store
from tests import make

CHILD = "00000000000000c1"
OTHER = "00000000000000c2"
GRANDCHILD = "00000000000000d1"
SOURCE = make.origin("20", 20)
PARENT: list[make.Made] = [make.training(), make.steps(20), make.saved(20)]


def documents(*made: make.Made) -> Documents:
    history = make.History(*made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    return documents


def record(made: Documents, run: str) -> dict[str, Any]:
    found = made.get(run)
    assert found is not None
    return found


def only(made: Documents) -> dict[str, Any]:
    (branch,) = made.branches(make.RUN)
    return branch


def held_by(made: Documents, run: str = make.RUN) -> list[list[str]]:
    return [each["heldBy"] for each in made.snapshots(run)]


# -- what a token asked for ------------------------------------------------------------------------


def test_a_branch_says_what_was_asked_for() -> None:
    """I12, S163."""
    requested = make.branch_requested(
        CHILD, SOURCE, 5, at=90, config_name="lower rate", description="half of it"
    )

    assert only(documents(PARENT, requested)) == {
        "submissionId": make.token(CHILD),
        "childRunId": CHILD,
        "snapshotId": make.snapshot_id("20"),
        "sourceStep": 20,
        "restore": "weights",
        "steps": 5,
        "state": "requested",
        "refusal": None,
        "configName": "lower rate",
        "description": "half of it",
        "configHash": config_sha256(make.document(config={"maxSteps": 5})),
        "requestedAt": "2026-12-01T08:01:30.000Z",
        "position": len(make.recorded(PARENT)) + 1,
    }


def test_a_branch_goes_from_requested_to_created() -> None:
    """S157: each state can be seen."""
    story = make.branched(CHILD, SOURCE)

    assert [only(documents(PARENT, story[:n]))["state"] for n in range(1, 6)] == [
        "requested",
        "requested",
        "preparing",
        "preparing",
        "created",
    ]


def test_a_refused_branch_says_why_and_what_to_do() -> None:
    """S157."""
    refused = make.branch_refused(CHILD, "the source is damaged")

    branch = only(documents(PARENT, make.branch_requested(CHILD, SOURCE), refused))

    assert branch["state"] == "refused"
    assert branch["refusal"] == {
        "reason": "the source is damaged",
        "advice": "take another snapshot",
    }


def test_branches_are_listed_newest_first_and_a_page_at_a_time() -> None:
    """I12: 50 of them, at most 100; the last of a page says where the next one goes on."""
    made = documents(PARENT, [make.branched(f"c{n:015x}", SOURCE) for n in range(130)])

    pages = [made.branches(make.RUN, limit=60)]
    while pages[-1]:
        pages.append(made.branches(make.RUN, limit=60, before=pages[-1][-1]["position"]))

    assert [len(page) for page in pages] == [60, 60, 10, 0]
    found = [each["childRunId"] for page in pages for each in page]
    assert found == [f"c{n:015x}" for n in reversed(range(130))]
    assert len(made.branches(make.RUN)) == 50
    assert len(made.branches(make.RUN, limit=1000)) == 100


def test_a_branch_is_found_by_its_token_and_its_parent_alone() -> None:
    """S162: the token of a branch of another run is none of this one's."""
    made = documents(
        PARENT,
        make.branched(CHILD, SOURCE),
        make.training(OTHER),
        make.submission("plan", OTHER),
    )

    assert made.branch(make.RUN, make.token(CHILD)) == only(made)
    assert made.branch(OTHER, make.token(CHILD)) is None
    assert made.branch(make.RUN, "plan") is None
    assert made.branches(OTHER) == []


def test_events_that_tell_nothing_of_branches_change_nothing() -> None:
    assert list(branches.changes(make.step(1), 1)) == []


# -- the digest of settings ------------------------------------------------------------------------


def test_equal_settings_and_data_have_equal_digests() -> None:
    """I21: whatever the labels and ids, the order of fields, and how the run is carried out."""
    plan = make.document(name="a", config={"learningRate": 1e-4, "maxSteps": 5})
    same = make.document(
        name="b",
        description="again",
        project="other",
        config={"maxSteps": 5, "learningRate": 1e-4},
        execution={"saveEvery": 1},
    )

    assert config_sha256(plan) == config_sha256(same)
    assert len(config_sha256(plan)) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"config": {"maxSteps": 6}},
        {"config": {"maxSteps": 5, "seed": 1}},
        {"config": {"maxSteps": 5, "lora": {"rank": 8}}},
        {"config": {"maxSteps": 5}, "baseModel": "large"},
        {"config": {"maxSteps": 5}, "dataset": "others.jsonl"},
        {"config": {"maxSteps": 5}, "method": "GRPO", "engine": {"command": ["train"]}},
    ],
)
def test_other_settings_or_data_have_another_digest(other: dict[str, Any]) -> None:
    """I21."""
    plan = make.document(config={"maxSteps": 5})

    assert config_sha256(make.document(**other)) != config_sha256(plan)


def test_a_plan_from_before_there_was_a_field_has_the_digest_of_one_without_a_value() -> None:
    """I21: ``klBeta`` came later."""
    plan = make.document(config={"maxSteps": 5})
    old = plan | {"config": {k: v for k, v in plan["config"].items() if k != "klBeta"}}

    assert plan["config"]["klBeta"] is None
    assert config_sha256(old) == config_sha256(plan)


def test_children_of_equal_settings_show_equal_digests() -> None:
    """I12, I21."""
    made = documents(
        PARENT,
        make.branched(CHILD, SOURCE, config={"learningRate": 1e-4}),
        make.branched(OTHER, SOURCE, config={"learningRate": 1e-4}),
        make.branched(GRANDCHILD, SOURCE, config={"learningRate": 2e-4}),
    )

    third, second, first = (each["configHash"] for each in made.branches(make.RUN))
    assert first == second != third


# -- the child -------------------------------------------------------------------------------------


def test_a_child_says_where_it_comes_from_and_other_runs_do_not() -> None:
    """S138."""
    made = documents(PARENT, make.branched(CHILD, SOURCE))

    assert record(made, make.RUN)["origin"] is None
    assert record(made, CHILD)["origin"] == {
        "parent": make.RUN,
        "snapshotId": make.snapshot_id("20"),
        "step": 20,
        "restore": "weights",
    }
    assert record(made, CHILD)["submissionId"] == make.token(CHILD)


def test_a_childs_second_attempt_begins_where_it_branched() -> None:
    """I6, S138: a branch has no start of its own to go back to."""
    again: list[make.Made] = [
        make.opened(2, CHILD),
        make.begun_from(0, 2, CHILD),
        make.phase("QUEUED", CHILD),
    ]
    child = record(
        documents(
            PARENT,
            make.branched(CHILD, SOURCE),
            make.training(CHILD)[1:],
            make.lost(1, CHILD),
            again,
        ),
        CHILD,
    )

    notes = [each["note"] for each in child["attempts"]]
    assert notes[1] == "from where it branched: there was no snapshot of its own to go on from"


def test_a_child_counts_from_zero() -> None:
    """S28, S138, C22: both fields, although its parent had 20 updates."""
    made = documents(PARENT, make.branched(CHILD, SOURCE, 5))

    child = record(made, CHILD)

    assert (child["observedStep"], child["savedStep"], child["saved"]) == (0, None, None)
    assert child["progress"] == {"completed": 0, "total": 5, "share": 0.0, "lastLoss": None}
    assert made.snapshots(CHILD) == []


def test_a_child_has_steps_of_its_own_and_the_engines_step_is_another_number() -> None:
    """S124, S138, C22."""
    started = make.training(CHILD)[1:]
    trained = [make.step(n, {"loss": 0.5, "engine_step": 20 + n}, run=CHILD) for n in range(1, 6)]

    saved = make.saved(5, "5", run=CHILD)

    child = record(
        documents(PARENT, make.branched(CHILD, SOURCE, 5), started, trained, saved), CHILD
    )

    assert (child["observedStep"], child["savedStep"]) == (5, 5)
    assert child["latest"] == {"step": 5, "measured": {"loss": 0.5, "engine_step": 25}}
    assert child["progress"]["share"] == 1.0


def test_the_whole_of_a_child_is_its_budget_whatever_its_engine_counts() -> None:
    """S141, C22: an engine that goes on at step 21 may call 25 the whole."""
    began = [*make.training(CHILD)[1:], make.began(25, run=CHILD)]

    child = record(documents(PARENT, make.branched(CHILD, SOURCE, 5), began), CHILD)

    assert child["progress"]["total"] == 5


# -- the parent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "branching",
    [
        pytest.param(make.branched(CHILD, SOURCE), id="created"),
        pytest.param(
            [
                make.branched(CHILD, SOURCE),
                make.training(CHILD)[1:],
                make.steps(5, run=CHILD),
                make.saved(5, "child's", run=CHILD),
                make.closed(run=CHILD),
                make.completed(CHILD),
                make.snapshot_released(SOURCE, CHILD),
            ],
            id="ended",
        ),
        pytest.param(
            [
                make.branched(CHILD, SOURCE)[:3],
                make.branch_refused(CHILD, "the source is damaged"),
                make.snapshot_released(SOURCE, CHILD),
            ],
            id="refused",
        ),
    ],
)
def test_the_record_of_a_parent_is_the_same_bytes_whatever_its_children_do(
    branching: list[make.Made],
) -> None:
    """S137, C22: its position too."""
    before = documents(PARENT)

    after = documents(PARENT, branching)

    assert orjson.dumps(after.get(make.RUN)) == orjson.dumps(before.get(make.RUN))
    assert after.row(make.RUN) == before.row(make.RUN)
    assert after.whole(make.RUN) == before.whole(make.RUN)


def test_a_snapshot_names_the_runs_that_hold_it() -> None:
    """I7, I10, C26: from before they are submitted until they are released."""
    held = [make.branched(OTHER, SOURCE), make.branched(CHILD, SOURCE)[:2]]

    assert held_by(documents(PARENT, held)) == [[CHILD, OTHER]]
    assert held_by(documents(PARENT, held, make.snapshot_released(SOURCE, OTHER))) == [[CHILD]]
    found = documents(PARENT, held).snapshot(make.snapshot_id("20"))
    assert [each["heldBy"] for each in found] == [[CHILD, OTHER]]


def test_a_snapshot_of_equal_files_of_another_run_is_not_held() -> None:
    """I8: the same files may be a snapshot of two runs."""
    made = documents(
        PARENT, make.training(OTHER), make.saved(20, run=OTHER), make.branched(CHILD, SOURCE)
    )

    assert held_by(made, OTHER) == [[]]
    assert held_by(made) == [[CHILD]]


def test_holding_twice_is_holding_once() -> None:
    held = make.snapshot_held(SOURCE, CHILD)

    assert held_by(documents(PARENT, held, held)) == [[CHILD]]


# -- generations -----------------------------------------------------------------------------------


FAMILY: list[make.Made] = [
    PARENT,
    make.branched(OTHER, make.origin("20", 20, restore="trainingState"), 4, name="second"),
    make.branched(CHILD, SOURCE, 5),
    [make.training(CHILD)[1:], make.steps(3, run=CHILD), make.saved(3, "3", run=CHILD)],
    make.branched(GRANDCHILD, make.origin("3", 3, parent=CHILD), 7),
    make.branch_requested("ee", SOURCE),
    make.branch_refused("ee", "the source is damaged"),
]


def test_a_tree_has_every_generation_from_its_root() -> None:
    """I13: whichever of its runs is asked for; what was refused is no run."""
    made = documents(FAMILY, make.training("ff"))
    twenty = make.snapshot_id("20")

    expected = {
        "runId": make.RUN,
        "name": None,
        "phase": "TRAINING",
        "origin": None,
        "steps": None,
        "children": [
            {
                "runId": OTHER,
                "name": "second",
                "phase": "SUBMITTED",
                "origin": {
                    "parent": make.RUN,
                    "snapshotId": twenty,
                    "step": 20,
                    "restore": "trainingState",
                },
                "steps": 4,
                "children": [],
            },
            {
                "runId": CHILD,
                "name": None,
                "phase": "TRAINING",
                "origin": {
                    "parent": make.RUN,
                    "snapshotId": twenty,
                    "step": 20,
                    "restore": "weights",
                },
                "steps": 5,
                "children": [
                    {
                        "runId": GRANDCHILD,
                        "name": None,
                        "phase": "SUBMITTED",
                        "origin": {
                            "parent": CHILD,
                            "snapshotId": make.snapshot_id("3"),
                            "step": 3,
                            "restore": "weights",
                        },
                        "steps": 7,
                        "children": [],
                    }
                ],
            },
        ],
    }
    for run in (make.RUN, OTHER, CHILD, GRANDCHILD):
        assert made.tree(run) == expected


def test_an_ancestry_goes_from_the_root_to_the_run() -> None:
    """I13: with snapshot, step and budget, and where in the ledger the snapshot was written."""
    made = documents(FAMILY)
    offered = [p for p, event in make.recorded(FAMILY) if isinstance(event, SnapshotOffered)]

    assert made.ancestry(GRANDCHILD) == [
        {
            "runId": make.RUN,
            "name": None,
            "phase": "TRAINING",
            "snapshotId": None,
            "step": None,
            "restore": None,
            "steps": None,
            "writtenPosition": None,
        },
        {
            "runId": CHILD,
            "name": None,
            "phase": "TRAINING",
            "snapshotId": make.snapshot_id("20"),
            "step": 20,
            "restore": "weights",
            "steps": 5,
            "writtenPosition": offered[0],
        },
        {
            "runId": GRANDCHILD,
            "name": None,
            "phase": "SUBMITTED",
            "snapshotId": make.snapshot_id("3"),
            "step": 3,
            "restore": "weights",
            "steps": 7,
            "writtenPosition": offered[1],
        },
    ]
    assert [each["runId"] for each in made.ancestry(make.RUN)] == [make.RUN]


def test_a_run_that_there_is_not_has_neither_tree_nor_ancestry() -> None:
    """I13: a child that is being prepared, or was refused, is none yet, or never."""
    made = documents(FAMILY, make.branched("dd", SOURCE)[:3])

    for run in ("ff", "ee", "dd"):
        assert made.tree(run) is None
        assert made.ancestry(run) == []


def test_a_thousand_generations_are_told_without_recursion() -> None:
    """I13."""
    runs = [make.RUN, *(f"c{n:015x}" for n in range(1, 1001))]
    chain = [
        make.branched(child, make.origin("20", 1, parent=parent))
        for parent, child in pairwise(runs)
    ]
    made = documents(PARENT, chain)

    node, told = made.tree(runs[500]), []
    while node is not None:
        told.append(node["runId"])
        node = next(iter(node["children"]), None)

    assert told == runs
    assert [each["runId"] for each in made.ancestry(runs[-1])] == runs


def test_a_thousand_children_are_read_in_less_than_50_ms() -> None:
    """I12, I13: tree, and a page of branches."""
    made = documents(PARENT, [make.branched(f"c{n:015x}", SOURCE) for n in range(1000)])
    reads: list[Callable[[], Any]] = [lambda: made.tree(make.RUN), lambda: made.branches(make.RUN)]

    for read in reads:
        assert min(seconds(read) for _ in range(3)) < 0.05
    tree = made.tree(make.RUN)
    assert tree is not None
    assert len(tree["children"]) == 1000


def seconds(read: Callable[[], Any]) -> float:
    began = time.perf_counter()
    read()
    return time.perf_counter() - began


# -- kept in step with the documents ---------------------------------------------------------------


def test_branches_of_an_older_version_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    history = make.History(PARENT, make.branched(CHILD, SOURCE))
    database = Database(":memory:")
    Documents(database, history).apply(history.events)
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)

    made = Documents(database, history)

    assert (made.position(), made.branches(make.RUN)) == (0, [])
    made.apply(history.events)
    assert only(made)["state"] == "created"
    assert held_by(made) == [[CHILD]]


def test_a_batch_that_fails_leaves_branches_alone() -> None:
    """Rows and position commit together, or neither: the second token is the first one's."""
    history = make.History(PARENT, make.branch_requested(CHILD, SOURCE))
    made = Documents(Database(":memory:"), history)
    made.apply(history.events)
    twice = make.recorded(
        make.source_held(CHILD), make.branch_requested(CHILD, SOURCE), after=history.events
    )

    with pytest.raises(IntegrityError):
        made.apply(twice)

    assert only(made)["state"] == "requested"
    assert made.position() == history.position()
