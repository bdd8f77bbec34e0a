"""Preparation before devices are claimed: the process manager, with a launcher and clocks to move.

What the program that prepares does with rows is in ``test_preparation.py``.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.dispatch.launcher import JobRef, JobState
from engine.failures import Exit
from ledger.branch import Request
from ledger.errors import RefusedError
from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    Event,
    Job,
    LineRejected,
    PhaseChanged,
    PreparationClosed,
    PreparationOpened,
    RunFailed,
    SnapshotCommitted,
    StageReported,
)
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from tests import ledgers
from tests.desk import KILLED, Desk

SLOTS = ("cpu:0", "cpu:1")
READ = '{"kind": "stage", "stage": "reading rows"}'
PREPARED = '{"kind": "completed"}'
DONE = Exit(code=0)


def asked(**execution: Any) -> dict[str, Any]:
    """Of a plan: the engine that prepares ahead, on two devices."""
    return {"engine": "trl", "execution": {"devices": 2} | execution}


def submit(desk: Desk, **execution: Any) -> str:
    return ledgers.submit(desk.ledger, **asked(**execution))


def prepare(desk: Desk, run_id: str, preparation: int = 1) -> None:
    """The open preparation does all that it is for."""
    desk.hear(run_id, READ, PREPARED, preparation=preparation, seen=DONE, at=desk.seconds)


def told(desk: Desk, run_id: str) -> list[Any]:
    """The life of the run: phases, and the events that open and close its jobs."""
    kinds = (PhaseChanged, PreparationOpened, PreparationClosed, AttemptOpened, AttemptClosed)
    events = desk.events(run_id, Event)
    return [
        each.phase if isinstance(each, PhaseChanged) else type(each).__name__
        for each in events
        if isinstance(each, (*kinds, RunFailed))
    ]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, slots=SLOTS)


def test_rows_are_prepared_before_devices_are_claimed(desk: Desk) -> None:
    """S29, S41, S42, D3: no device event before the first PREPARING ends; the second holds them."""
    run_id = submit(desk)

    desk.work()
    assert desk.phase(run_id) is Phase.PREPARING
    assert desk.pool.free() == SLOTS
    (request,) = desk.launcher.submitted
    assert (request.ref, request.devices) == (JobRef(run_id, 1, "preparation"), ())
    prepare(desk, run_id)
    assert desk.phase(run_id) is Phase.WAITING
    desk.work()
    assert desk.pool.free() == ()
    assert desk.launcher.submitted[-1].ref == JobRef(run_id, 1)
    desk.hear(run_id)
    desk.hear(run_id, *ledgers.step_lines(1, 1))

    assert told(desk, run_id) == [
        "PREPARING",
        "PreparationOpened",
        "PreparationClosed",
        "WAITING",
        "AttemptOpened",
        "QUEUED",
        "PREPARING",
        "TRAINING",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": "trl"},
        {"engine": "sim"},
        {"engine": {"command": ["train"]}, "execution": {"devices": 2}},
    ],
)
def test_on_one_device_or_by_another_engine_nothing_is_prepared_ahead(
    desk: Desk, fields: dict[str, Any]
) -> None:
    """S43: there the worker that holds the devices does it."""
    run_id = ledgers.submit(desk.ledger, **fields)

    desk.work()

    assert told(desk, run_id) == ["AttemptOpened", "QUEUED"]


def test_a_refusal_fails_the_run_before_it_has_an_attempt(desk: Desk) -> None:
    """S66, S68, C01: with the refusal's own sentence; no device was ever claimed."""
    run_id = submit(desk)
    desk.work()
    sentence = "an example ends with a user message: row 2 of rows.jsonl"
    refused = json.dumps({"kind": "refused", "reason": sentence})

    desk.hear(run_id, READ, refused, preparation=1, seen=Exit(code=65))
    desk.work()

    failed = desk.failure(run_id)
    assert (failed.reason, failed.code, failed.end_class) == (sentence, "refused", "input")
    assert desk.events(run_id, AttemptOpened) == []
    assert len(desk.launcher.submitted) == 1
    assert desk.pool.free() == SLOTS


def test_a_run_whose_preparation_waits_for_that_of_others_is_preparing(desk: Desk) -> None:
    """S31: the phase begins when the run is due, and says what it waits for."""
    first, second = submit(desk), submit(desk)

    desk.work()

    assert desk.phase(second) is Phase.PREPARING
    assert [each.ref.run for each in desk.launcher.submitted] == [first]
    newest = desk.events(second, PhaseChanged)[-1]
    assert newest.waiting_for == f"its turn to be prepared, after run {first}"

    prepare(desk, first)
    desk.work(after=30)

    refs = [each.ref for each in desk.launcher.submitted]
    assert refs[1:] == [JobRef(first, 1), JobRef(second, 1, "preparation")]
    assert desk.ledger.run(second).waiting_for is None
    assert told(desk, second) == ["PREPARING", "PREPARING", "PreparationOpened"]


def test_a_preparation_that_was_killed_is_repeated_and_then_fails_the_run(desk: Desk) -> None:
    """U3: as often as an attempt would be; no attempt is counted for it."""
    run_id = submit(desk, maxAttempts=2)
    desk.work()

    desk.hear(run_id, READ, preparation=1, seen=KILLED)
    assert desk.phase(run_id) is Phase.PREPARING
    desk.work(after=0.5)
    assert len(desk.launcher.submitted) == 1
    desk.work(after=1)
    assert desk.launcher.submitted[-1].ref == JobRef(run_id, 2, "preparation")
    desk.hear(run_id, READ, preparation=2, seen=Exit(code=70))

    assert desk.failure(run_id).reason == "this run’s rows could not be prepared"
    assert desk.events(run_id, AttemptOpened) == []


def test_attempts_have_all_their_tries_after_a_preparation_that_was_repeated(desk: Desk) -> None:
    run_id = submit(desk, maxAttempts=2)
    desk.work()
    desk.hear(run_id, preparation=1, seen=KILLED)
    desk.work(after=2)
    prepare(desk, run_id, preparation=2)
    desk.work()

    desk.hear(run_id, seen=KILLED)
    desk.work(after=2)

    assert [each.ref for each in desk.launcher.submitted[2:]] == [
        JobRef(run_id, 1),
        JobRef(run_id, 2),
    ]
    assert len(desk.events(run_id, PreparationOpened)) == 2


def test_a_preparation_that_reports_nothing_for_its_startup_timeout_fails_the_run(
    desk: Desk,
) -> None:
    """S35: on a fake clock; beats are a sign of life, and no progress."""
    run_id = submit(desk, startupTimeout="10m")
    desk.work()
    desk.hear(run_id, READ, preparation=1)

    for _ in range(12):
        assert desk.phase(run_id) is Phase.PREPARING
        desk.hear(run_id, first=2, preparation=1)
        desk.work(after=51)

    assert desk.failure(run_id).code == "no-progress"
    assert desk.launcher.cancelled == [JobRef(run_id, 1, "preparation")]


def test_a_silent_preparation_is_lost_and_its_process_killed(desk: Desk) -> None:
    """U3, U4: and nothing that it says later counts."""
    run_id = submit(desk, lease="60s")
    desk.work()
    desk.hear(run_id, READ, preparation=1)

    desk.work(after=61)
    late = desk.hear(run_id, PREPARED, first=2, preparation=1)

    assert desk.launcher.killed == [JobRef(run_id, 1, "preparation")]
    assert late == (1, None, True)
    assert desk.phase(run_id) is Phase.PREPARING
    desk.work(after=1)
    assert desk.launcher.submitted[-1].ref.number == 2


def test_a_dead_runner_is_followed_by_one_that_hands_over_what_it_left(desk: Desk) -> None:
    """U3: its process had prepared everything before the runner died."""
    run_id = submit(desk)
    desk.work()
    preparation = JobRef(run_id, 1, "preparation")

    desk.launcher.states[preparation] = JobState.GONE
    desk.work()
    desk.hear(run_id, READ, PREPARED, preparation=1, seen=Exit(seen=False))

    assert [each.ref for each in desk.launcher.submitted] == [preparation] * 2
    assert desk.phase(run_id) is Phase.WAITING


def test_a_restarted_server_adopts_a_preparation(tmp_path: Path) -> None:
    """U3: it is launched again, which changes nothing where it is alive, and heard."""
    recorder = MemoryRecorder()
    before = Desk(tmp_path, recorder, slots=SLOTS)
    run_id, other = submit(before), submit(before)
    before.work()
    before.hear(run_id, READ, preparation=1)

    after = Desk(tmp_path, recorder, slots=SLOTS)
    after.work()

    (request,) = after.launcher.submitted
    assert request.ref == JobRef(run_id, 1, "preparation")
    assert request.token == before.launcher.submitted[0].token
    assert after.pool.free() == SLOTS
    assert after.hear(run_id, READ, PREPARED, preparation=1, seen=DONE) == (2, None, True)
    after.work()
    assert after.ledger.run(other).open_job is not None


def test_a_job_that_cannot_be_launched_fails_with_the_published_sentence(desk: Desk) -> None:
    """S77: after every retry."""
    run_id = submit(desk, maxAttempts=2)
    desk.launcher.fault = OSError("no space left on device")

    desk.work()
    desk.work(after=2)

    assert desk.failure(run_id).reason == (
        "this run’s job could not be started on the training cluster"
    )


def test_a_run_is_cancelled_while_its_rows_are_prepared(desk: Desk) -> None:
    """I3: the process is told to stop; what it had done until then does not count."""
    run_id, waiting = submit(desk), submit(desk)
    desk.work()
    desk.hear(run_id, READ, preparation=1)

    desk.dispatcher.cancel(waiting, principal="tester")
    desk.dispatcher.cancel(run_id, principal="tester")

    assert desk.phase(waiting) is Phase.CANCELLED
    assert desk.phase(run_id) is Phase.CANCELLING
    assert desk.hear(run_id, first=2, preparation=1) == (1, "stop", False)
    desk.hear(run_id, first=2, preparation=1, seen=Exit(code=143))
    assert desk.phase(run_id) is Phase.CANCELLED
    assert desk.events(run_id, AttemptOpened) == []


@pytest.mark.parametrize("is_done", [False, True])
def test_a_run_that_was_paused_while_its_rows_were_prepared_goes_on(
    desk: Desk, *, is_done: bool
) -> None:
    """I4: it prepares again where it had not ended, and only there."""
    run_id = submit(desk)
    desk.work()

    desk.dispatcher.pause(run_id, checkpoint="save", principal="tester")
    assert desk.phase(run_id) is Phase.PAUSING
    assert desk.hear(run_id, READ, preparation=1) == (1, "pause", False)
    lines, how = ([PREPARED], DONE) if is_done else ([], Exit(code=143))
    desk.hear(run_id, *lines, first=2, preparation=1, seen=how)
    assert desk.phase(run_id) is Phase.PAUSED
    desk.work()
    assert len(desk.launcher.submitted) == 1
    desk.dispatcher.resume(run_id, principal="tester")
    desk.work()

    ref = JobRef(run_id, 1) if is_done else JobRef(run_id, 2, "preparation")
    assert desk.launcher.submitted[-1].ref == ref
    assert desk.phase(run_id) is (Phase.QUEUED if is_done else Phase.PREPARING)


def test_a_run_that_waits_to_be_prepared_is_paused_at_once(desk: Desk) -> None:
    """I4: it holds nothing, and goes on where it was."""
    submit(desk)
    run_id = submit(desk)
    desk.work()

    desk.dispatcher.pause(run_id, checkpoint="save", principal="tester")
    assert desk.phase(run_id) is Phase.PAUSED
    desk.dispatcher.resume(run_id, principal="tester")

    assert desk.phase(run_id) is Phase.PREPARING


def test_what_only_a_training_can_say_does_not_count(desk: Desk) -> None:
    """S68: no step, no snapshot and no training comes of a preparation; the line is kept."""
    run_id = submit(desk)
    desk.work()

    desk.hear(run_id, '{"kind": "training"}', READ, *ledgers.step_lines(1, 1), preparation=1)

    assert desk.phase(run_id) is Phase.PREPARING
    assert [each.reason for each in desk.events(run_id, LineRejected)] == [
        "a preparation says nothing of kind training",
        "a preparation says nothing of kind step",
    ]
    (stage,) = desk.events(run_id, StageReported)
    assert (stage.originator_id, stage.principal) == (f"run/{run_id}/p1", "preparation/1")


def test_the_token_of_a_preparation_is_not_that_of_an_attempt(desk: Desk) -> None:
    """Decision 0003: nor is it that of another preparation."""
    run_id = submit(desk)
    desk.work()
    token = desk.dispatcher.tokens.of(run_id, Job(1, "preparation"))

    assert desk.dispatcher.tokens.reporter(token) == (run_id, Job(1, "preparation"))
    assert not desk.dispatcher.tokens.admits(run_id, Job(1), token)
    assert not desk.dispatcher.tokens.admits(run_id, Job(2, "preparation"), token)


def test_a_branch_is_prepared_for_its_own_plan(desk: Desk) -> None:
    """S36, S136: before its source is fetched; its first attempt begins from there all the same."""
    run_id = submit(desk)
    desk.work()
    prepare(desk, run_id)
    desk.work()
    saved = [*ledgers.step_lines(1, 2), desk.snapshot_line(run_id, 2)]
    desk.hear(run_id, *saved, PREPARED, seen=DONE)
    desk.work()

    (snapshot,) = desk.events(run_id, SnapshotCommitted)
    asked_for = Request(run_id, snapshot=snapshot.snapshot_id, steps=5)
    state, _ = desk.branches.request(asked_for, token="token-1", principal="tester")
    desk.work()
    assert desk.phase(state.child) is Phase.PREPARING
    prepare(desk, state.child)
    desk.work()

    request = desk.launcher.submitted[-1]
    assert request.ref == JobRef(state.child, 1)
    assert request.environment["TRAINLEDGER_BRANCH"] == "weights"
    assert (Path(request.environment["TRAINLEDGER_ORIGIN"]) / "adapter_model.safetensors").exists()


def test_no_attempt_is_opened_for_a_run_that_is_being_prepared(desk: Desk) -> None:
    """S29: the rules refuse it, whoever asks."""
    run_id = submit(desk)
    desk.work()

    with pytest.raises(RefusedError, match="preparation 1 of run"):
        ledgers.open_attempt(desk.ledger, run_id)
