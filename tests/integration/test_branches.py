"""Branches over a real ledger and a real store: asked for once, prepared, held, carried out."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.failures import Exit
from ledger.branch import Request
from ledger.branches import Branches
from ledger.errors import NotFoundError, PlanError, RefusedError, TokenReusedError
from ledger.events import (
    BranchRequested,
    Job,
    RunFailed,
    SnapshotCommitted,
    SnapshotHeld,
    SnapshotReleased,
    SnapshotSwept,
)
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from tests import ledgers
from tests.desk import RUNNER, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, slots=("cpu:0", "cpu:1"))


def parent(desk: Desk, *steps: int, **fields: Any) -> str:
    """A run that trains and saved these updates."""
    run_id = ledgers.submit(desk.ledger, config={"maxSteps": 100, "seed": 3}, **fields)
    desk.work()
    line = 1
    for before, step in zip((0, *steps), steps, strict=False):
        lines = [*ledgers.step_lines(before + 1, step), desk.snapshot_line(run_id, step)]
        desk.hear(run_id, *lines, first=line)
        line += len(lines)
    desk.work()
    return run_id


def snapshot(desk: Desk, run_id: str, step: int) -> str:
    found = [each for each in desk.events(run_id, SnapshotCommitted) if each.step == step]
    return found[-1].snapshot_id


def ask(desk: Desk, run_id: str, step: int = 20, token: str = "token-1", **fields: Any) -> str:
    """The id of the child that a token asks for."""
    facts: dict[str, Any] = {"snapshot": snapshot(desk, run_id, step), "steps": 5} | fields
    state, _ = desk.branches.request(Request(run_id, **facts), token=token, principal="tester")
    return state.child


def test_a_child_begins_from_a_snapshot_of_its_parent(desk: Desk) -> None:
    """S136, S138, S141, S146: its own run, with the parent's settings and a budget of its own."""
    run_id = parent(desk, 20, 40)
    child = ask(desk, run_id, 20)

    desk.work()

    state = desk.ledger.run(child)
    assert state.phase is Phase.QUEUED
    assert state.plan["config"]["maxSteps"] == 5
    assert state.plan["config"]["epochs"] is None
    assert state.plan["config"]["seed"] == 3
    request = desk.launcher.submitted[-1]
    assert request.ref.run == child
    assert request.environment["TRAINLEDGER_BRANCH"] == "weights"
    folder = Path(request.environment["TRAINLEDGER_ORIGIN"])
    assert (folder / "adapter_model.safetensors").read_text() == f"weights of {run_id} at 20"
    assert not (folder / "trainingState").exists()
    assert "TRAINLEDGER_RESTORE" not in request.environment


def test_the_number_of_a_step_is_no_beginning_of_an_id(desk: Desk) -> None:
    """C23: 41 was not saved, also where the id of another snapshot begins with 41."""
    run_id = parent(desk, *range(1, 31))
    committed = desk.events(run_id, SnapshotCommitted)
    source = next(each.snapshot_id for each in committed if each.snapshot_id[0].isdecimal())

    with pytest.raises(NotFoundError, match=f"has no committed snapshot '{source[0]}'; it has:"):
        ask(desk, run_id, 1, snapshot=source[0])
    assert ask(desk, run_id, 1, snapshot=source[:12])


def test_training_state_comes_along_where_it_is_asked_for(desk: Desk) -> None:
    """S144."""
    run_id = parent(desk, 20)
    ask(desk, run_id, restore="trainingState")

    desk.work()

    folder = Path(desk.launcher.submitted[-1].environment["TRAINLEDGER_ORIGIN"])
    assert (folder / "trainingState" / "state.json").read_text() == "state at 20"


def test_the_parent_is_unchanged_by_its_children(desk: Desk) -> None:
    """S137, S139, D11: it trains on; not one event of its own stream is theirs."""
    run_id = parent(desk, 20)
    before = desk.ledger.read_run(run_id, 0, 1_000)

    children = [ask(desk, run_id, token=f"token-{n}") for n in range(2)]
    desk.work()

    assert desk.ledger.read_run(run_id, 0, 1_000) == before
    assert len({run_id, *children}) == 3
    assert all(desk.ledger.run(each).origin is not None for each in children)


def test_a_preview_stores_nothing_and_holds_nothing(desk: Desk) -> None:
    """S154, S155: equal positions before and after."""
    run_id = parent(desk, 20)
    position = desk.ledger.position()
    request = Request(
        run_id, snapshot(desk, run_id, 20)[:8], 7, overrides={"config": {"learningRate": 0.5}}
    )

    child = desk.branches.preview(request)

    assert child.plan["config"]["learningRate"] == 0.5
    assert child.stated == ("config.learningRate", "config.maxSteps")
    assert child.origin.step == 20
    assert desk.ledger.position() == position
    assert desk.branches.held() == frozenset()


def test_a_token_makes_one_child(desk: Desk) -> None:
    """S160, S161, C54, D14: also in parallel and after a restart; another body is refused."""
    run_id = parent(desk, 20)

    with ThreadPoolExecutor(8) as pool:
        children = set(pool.map(lambda _: ask(desk, run_id, token="same"), range(16)))
    desk.work()

    assert len(children) == 1
    restarted = Branches(desk.ledger)
    request = Request(run_id, snapshot(desk, run_id, 20)[:12], 5)
    state, is_new = restarted.request(request, token="same", principal="tester")
    assert ({state.child}, is_new, state.state) == (children, False, "created")
    with pytest.raises(TokenReusedError, match="asked for another branch, of 5 updates"):
        ask(desk, run_id, token="same", steps=6)
    assert ask(desk, run_id, token="other") not in children


def test_branches_and_sweeps_never_wait_for_each_other(desk: Desk) -> None:
    """C54, C26: asked for while snapshots are swept, each holding what the other looks at."""
    run_id = parent(desk, 20)

    with ThreadPoolExecutor(8) as pool:
        sweeps = [pool.submit(desk.keeper.sweep, run_id, principal="operator") for _ in range(100)]
        asked = [pool.submit(ask, desk, run_id, token=f"token-{n}") for n in range(100)]
        children = {each.result(timeout=60) for each in asked}
        assert all(each.result(timeout=60) == 0 for each in sweeps)

    assert len(children) == 100


def test_a_token_of_a_run_is_none_of_a_branch_and_the_other_way_round(desk: Desk) -> None:
    """C54: never merged."""
    run_id = parent(desk, 20)
    desk.ledger.submit(ledgers.DOCUMENT, token="of-a-run", principal="tester")
    ask(desk, run_id, token="of-a-branch")

    with pytest.raises(TokenReusedError, match="created a run from a plan"):
        ask(desk, run_id, token="of-a-run")
    with pytest.raises(TokenReusedError, match="asked for a branch"):
        desk.ledger.submit(ledgers.DOCUMENT, token="of-a-branch", principal="tester")


def test_a_submission_outlives_the_server(tmp_path: Path) -> None:
    """S156, S157: what was answered is prepared by whoever comes next, from where it was left."""
    recorder = MemoryRecorder()
    before = Desk(tmp_path, recorder)
    run_id = parent(before, 20)
    child = ask(before, run_id)
    assert before.branches.state("token-1").state == "requested"
    before.branches.hold("token-1")
    assert before.branches.state("token-1").state == "preparing"

    after = Desk(tmp_path, recorder, slots=("cpu:0", "cpu:1"))
    after.work()

    assert after.branches.state("token-1").state == "created"
    assert after.ledger.run(child).phase is Phase.QUEUED
    holds = after.ledger.stream(f"snapshot/{snapshot(after, run_id, 20)}")
    assert [type(each) for each in holds] == [SnapshotHeld]


def test_the_source_is_held_until_the_child_has_ended(desk: Desk) -> None:
    """C26, I10, U13: a sweep never removes it meanwhile."""
    run_id = parent(desk, 20, execution={"keepTrainingState": 1, "keepWeights": 1})
    source = snapshot(desk, run_id, 20)
    child = ask(desk, run_id)
    desk.work()

    lines = [*ledgers.step_lines(21, 40), desk.snapshot_line(run_id, 40)]
    desk.hear(run_id, *lines, first=22)
    desk.work()
    assert desk.branches.holders(source) == [child]
    assert desk.events(run_id, SnapshotSwept) == []
    desk.dispatcher.hear(
        child,
        Job(1),
        runner=RUNNER,
        first=1,
        lines=['{"kind": "completed"}'],
        seen=(Exit(code=0), None),
    )
    desk.work()

    assert desk.branches.holders(source) == []
    released = desk.ledger.stream(f"snapshot/{source}")[-1]
    assert isinstance(released, SnapshotReleased)
    assert desk.keeper.sweep(run_id, principal="operator") > 0


def test_a_source_that_is_damaged_is_refused_and_not_held(desk: Desk) -> None:
    """S157, S159: the submission was durable, the preparation says why there is no child."""
    run_id = parent(desk, 20)
    source = snapshot(desk, run_id, 20)
    (weights,) = (desk.home / "snapshots" / run_id / source).rglob("adapter_model.safetensors")
    weights.write_text("something else")
    child = ask(desk, run_id)

    desk.work()

    state = desk.branches.state("token-1")
    assert state.state == "refused"
    assert "adapter_model.safetensors" in (state.refusal or "")
    assert desk.branches.held() == frozenset()
    with pytest.raises(NotFoundError):
        desk.ledger.run(child)


def test_a_child_whose_source_breaks_before_its_first_attempt_fails(desk: Desk) -> None:
    """It was whole when it was prepared; there is nothing else to begin from."""
    run_id = parent(desk, 20)
    source = snapshot(desk, run_id, 20)
    child = ask(desk, run_id)
    desk.brancher.work()
    (weights,) = (desk.home / "snapshots" / run_id / source).rglob("adapter_model.safetensors")
    weights.unlink()

    desk.work()

    (failed,) = desk.events(child, RunFailed)
    assert failed.code == "source-damaged"
    assert desk.ledger.run(child).phase is Phase.FAILED


def test_a_child_goes_on_from_its_own_snapshot_once_it_has_one(desk: Desk) -> None:
    """Before that, another attempt begins from the source again."""
    run_id = parent(desk, 20)
    child = ask(desk, run_id)
    desk.work()
    desk.hear(child, *ledgers.step_lines(1, 1), seen=Exit(signal=9))
    desk.work()
    again = desk.launcher.submitted[-1].environment
    assert set(again) == {"TRAINLEDGER_BRANCH", "TRAINLEDGER_ORIGIN"}

    lines = [*ledgers.step_lines(1, 2), desk.snapshot_line(child, 2, attempt=2)]
    desk.hear(child, *lines, attempt=2, seen=Exit(signal=9))
    desk.work()

    resumed = desk.launcher.submitted[-1].environment
    assert set(resumed) == {"TRAINLEDGER_BRANCH", "TRAINLEDGER_RESTORE"}


def test_a_branch_of_a_branch_is_a_branch(desk: Desk) -> None:
    """S139: the grandchild inherits from the child."""
    run_id = parent(desk, 20)
    child = ask(desk, run_id, overrides={"config": {"learningRate": 0.5}})
    desk.work()
    desk.hear(child, *ledgers.step_lines(1, 2), desk.snapshot_line(child, 2))
    desk.work()

    grandchild = ask(desk, child, 2, token="token-2", steps=9)
    desk.work()

    state = desk.ledger.run(grandchild)
    assert state.origin is not None
    assert state.origin.parent == child
    assert (state.plan["config"]["learningRate"], state.plan["config"]["maxSteps"]) == (0.5, 9)


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"config": {"maxSteps": 9}}, "config.maxSteps cannot be overridden: --steps is the"),
        ({"config": {"epochs": 2}}, "config.epochs cannot be overridden: --steps is the"),
        ({"config": {"lerningRate": 1}}, "config.lerningRate is not a field of a plan"),
        ({"baseModel": "other"}, "baseModel cannot be overridden: a branch inherits it"),
        ({"execution": {"devices": 2}}, "execution.devices cannot be overridden: a branch"),
        ({"surprise": 1}, "surprise is not a field of a plan"),
        ({"config": {"learningRate": -1}}, "config.learningRate is -1"),
    ],
)
def test_a_change_document_cannot_say_everything(
    desk: Desk, overrides: dict[str, Any], fault: str
) -> None:
    """S142, S147, S148, C22: each field is refused by name, and nothing is stored."""
    run_id = parent(desk, 20)
    position = desk.ledger.position()

    with pytest.raises(PlanError, match=fault):
        ask(desk, run_id, overrides=overrides)

    assert desk.ledger.position() == position


def test_with_training_state_only_the_learning_rate_may_change(desk: Desk) -> None:
    """S149, S150: any other field is refused, even when it says what the parent has."""
    run_id = parent(desk, 20)

    with pytest.raises(PlanError, match=r"config\.seed cannot be overridden with --restore"):
        ask(desk, run_id, restore="trainingState", overrides={"config": {"seed": 3}})
    ask(desk, run_id, restore="trainingState", overrides={"config": {"learningRate": 0.1}})
    assert desk.branches.state("token-1").plan["config"]["learningRate"] == 0.1


def test_only_committed_snapshots_of_the_parent_itself_are_sources(desk: Desk) -> None:
    """S136, S140, C23: the message lists what there is."""
    run_id, other = parent(desk, 20, 40), parent(desk, 30)
    position = desk.ledger.position()
    first = snapshot(desk, run_id, 20)

    for wrong in ("", "ffff", snapshot(desk, other, 30)):
        with pytest.raises(NotFoundError, match=first):
            ask(desk, run_id, snapshot=wrong)
    assert desk.ledger.position() == position
    with pytest.raises(PlanError, match="makes at least 1 update"):
        ask(desk, run_id, steps=0)


def test_a_snapshot_without_training_state_gives_weights_only(desk: Desk) -> None:
    """I11, S151."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    line = json.loads(desk.snapshot_line(run_id, 2)) | {"artifacts": ["weights"]}
    desk.hear(run_id, *ledgers.step_lines(1, 2), json.dumps(line))
    desk.work()

    with pytest.raises(RefusedError, match="does not hold trainingState"):
        ask(desk, run_id, 2, restore="trainingState")
    assert ask(desk, run_id, 2)


COMMAND = {"command": ["train"]}


def test_a_command_engine_has_no_portable_training_state(desk: Desk) -> None:
    """S151: not for the other engine."""
    run_id = parent(desk, 20, engine=COMMAND)

    with pytest.raises(RefusedError, match="not portable"):
        ask(desk, run_id, restore="trainingState")


def test_a_penalty_needs_the_right_reference(desk: Desk) -> None:
    """S153: an engine that measures it against the base model needs klBeta 0 in the child."""
    fields = {"method": "GRPO", "engine": COMMAND}
    run_id = ledgers.submit(desk.ledger, config={"klBeta": 0.1, "maxSteps": 50}, **fields)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 20), desk.snapshot_line(run_id, 20))
    desk.work()

    with pytest.raises(RefusedError, match=r"klBeta is 0\.1, and this engine measures"):
        ask(desk, run_id)
    assert ask(desk, run_id, overrides={"config": {"klBeta": 0}})


def test_the_training_state_of_a_child_has_no_reference_to_measure_a_penalty_against(
    desk: Desk,
) -> None:
    """S152: its reference is the adapter that it inherited, which its snapshot does not hold."""
    fields = {"method": "GRPO", "engine": {"sim": [{"training": 100}]}}
    run_id = ledgers.submit(desk.ledger, config={"klBeta": 0.1, "maxSteps": 50}, **fields)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 20), desk.snapshot_line(run_id, 20))
    desk.work()
    child = ask(desk, run_id)
    desk.work()
    desk.hear(child, *ledgers.step_lines(1, 2), desk.snapshot_line(child, 2))
    desk.work()

    assert ask(desk, run_id, token="token-2", restore="trainingState")
    with pytest.raises(RefusedError, match="started from inherited adapter weights and has a posi"):
        ask(desk, child, 2, token="token-3", restore="trainingState")
    assert ask(desk, child, 2, token="token-4")


def test_what_was_asked_for_is_kept_whole(desk: Desk) -> None:
    """S163: labels and changes are part of the request."""
    run_id = parent(desk, 20)
    ask(desk, run_id, config_name="lower rate", description="half of it")
    desk.work()

    (requested,) = [
        each
        for each in desk.ledger.stream("submission/token-1")
        if isinstance(each, BranchRequested)
    ]
    state = desk.ledger.run(requested.child)
    assert (requested.config_name, requested.description) == ("lower rate", "half of it")
    assert (state.plan["name"], state.plan["description"]) == ("lower rate", "half of it")
