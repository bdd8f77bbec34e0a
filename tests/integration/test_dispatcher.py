"""The process manager over a real ledger, with a launcher and clocks that a test moves."""

import json
from pathlib import Path

import pytest

from engine.dispatch.artifacts import StoreError
from engine.dispatch.launcher import JobRef, JobState, UnreachableError
from engine.failures import Exit
from ledger.events import (
    AttemptClosed,
    Job,
    PauseFailed,
    PhaseChanged,
    Restored,
    SnapshotCommitted,
    SnapshotDamaged,
    SnapshotRejected,
)
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from tests import ledgers, make
from tests.desk import KILLED, ONCE, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_run_goes_from_its_submission_to_its_end(desk: Desk) -> None:
    """S41, S42: QUEUED, PREPARING, TRAINING, COMPLETED, in this order."""
    run_id = ledgers.submit(desk.ledger)

    desk.work()
    assert desk.phase(run_id) is Phase.QUEUED
    assert desk.hear(run_id) == (0, None, False)
    assert desk.phase(run_id) is Phase.PREPARING
    assert desk.hear(run_id, *ledgers.step_lines(1, 2)) == (2, None, False)
    assert desk.phase(run_id) is Phase.TRAINING
    end = desk.hear(run_id, '{"kind": "completed"}', first=3, seen=Exit(code=0))

    assert end == (3, None, True)
    assert desk.phase(run_id) is Phase.COMPLETED
    assert desk.pool.free() == ("cpu:0",)


def test_runs_wait_in_order_and_say_for_what(desk: Desk) -> None:
    """S23: the wait is a phase of its own, with who holds the device."""
    first, second, third = (ledgers.submit(desk.ledger) for _ in range(3))

    desk.work()

    assert desk.phase(second) is desk.phase(third) is Phase.WAITING
    event = desk.ledger.read_run(second, 0, 10)[-1].event
    assert isinstance(event, PhaseChanged)
    assert event.waiting_for == f"1 device; cpu:0 is held by run {first}"

    desk.hear(first, '{"kind": "completed"}', seen=Exit(code=0))
    desk.work()

    assert desk.phase(second) is Phase.QUEUED
    assert desk.phase(third) is Phase.WAITING


def test_a_large_run_is_not_overtaken_by_later_small_ones(tmp_path: Path) -> None:
    desk = Desk(tmp_path, slots=("cpu:0", "cpu:1"))
    command = {"command": ["train"]}
    ledgers.submit(desk.ledger)
    large = ledgers.submit(desk.ledger, engine=command, execution={"devices": 2})
    small = ledgers.submit(desk.ledger)

    desk.work()

    assert desk.phase(large) is Phase.WAITING
    assert desk.phase(small) is Phase.WAITING


def test_an_attempt_that_is_silent_for_longer_than_its_lease_is_lost(desk: Desk) -> None:
    """U3, U4: the run fails, as of its last sign of life and not of the discovery."""
    run_id = ledgers.submit(desk.ledger, execution={"lease": "60s"} | ONCE)
    desk.work()
    desk.seconds = 10
    desk.hear(run_id, *ledgers.step_lines(1, 2))

    desk.work(after=30)
    assert desk.dispatcher.liveness(run_id)["verdict"] == "silent"
    assert desk.dispatcher.liveness(run_id)["silentSeconds"] == 30
    desk.work(after=31)

    assert desk.failure(run_id).reason == "the training job stopped before it finished"
    closed = desk.ledger.read_run(run_id, 0, 100)[-2].event
    assert isinstance(closed, AttemptClosed)
    assert closed.last_sign_at == make.moment(10)
    assert closed.at == make.moment(10)
    assert desk.launcher.killed == [JobRef(run_id, 1)]
    assert desk.dispatcher.liveness(run_id)["verdict"] == "ended"


def test_any_delivery_renews_the_lease(desk: Desk) -> None:
    """U3: three verdicts; a beat without lines is a sign of life."""
    run_id = ledgers.submit(desk.ledger, execution={"lease": "60s"})
    desk.work()

    for _ in range(5):
        desk.work(after=59)
        desk.hear(run_id)

    assert desk.dispatcher.liveness(run_id)["verdict"] == "alive"


def test_a_job_that_hangs_is_seen_by_its_step_counter(desk: Desk) -> None:
    """I28: beats and other lines go on, and the counter stands still."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2))

    desk.work(after=30)
    desk.hear(run_id, '{"kind": "stage", "stage": "waiting for data"}', first=3)
    desk.work(after=10)
    desk.hear(run_id)

    liveness = desk.dispatcher.liveness(run_id)
    assert liveness["verdict"] == "alive"
    assert liveness["silentSeconds"] == 0
    assert liveness["stepSilentSeconds"] == 40


def test_a_job_that_reports_nothing_for_its_startup_timeout_fails(desk: Desk) -> None:
    """S35: beats are a sign of life, and no progress."""
    run_id = ledgers.submit(desk.ledger, execution={"startupTimeout": "10m"})
    desk.work()
    for _ in range(12):
        desk.hear(run_id)
        desk.work(after=51)

    assert desk.failure(run_id).code == "no-progress"
    assert desk.pool.free() == ("cpu:0",)


def test_a_dead_runner_is_followed_by_one_that_hands_over_what_it_left(desk: Desk) -> None:
    run_id = ledgers.submit(desk.ledger, execution=ONCE)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2))

    desk.launcher.states[JobRef(run_id, 1)] = JobState.GONE
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(3, 3), first=3, seen=Exit(seen=False))

    assert [request.ref for request in desk.launcher.submitted] == [JobRef(run_id, 1)] * 2
    assert desk.failure(run_id).reason == "the training job stopped before it finished"
    assert desk.ledger.head(run_id, Job(1)).step == 3


def test_a_restarted_server_adopts_what_it_finds_in_the_ledger(tmp_path: Path) -> None:
    """The to-do is re-read from the ledger: devices stay held, the launch is done again."""
    recorder = MemoryRecorder()
    before = Desk(tmp_path, recorder, slots=("cpu:0", "cpu:1"))
    running, waiting = ledgers.submit(before.ledger), ledgers.submit(before.ledger)
    before.pool.hold("somebody", ["cpu:1"])
    before.work()
    before.hear(running, *ledgers.step_lines(1, 2))

    after = Desk(tmp_path, recorder, slots=("cpu:0", "cpu:1"))
    after.work()

    assert after.pool.held(running) == ("cpu:0",)
    assert after.pool.held(waiting) == ("cpu:1",)
    assert {request.token for request in after.launcher.submitted} == {
        after.dispatcher.tokens.of(running, Job(1)),
        after.dispatcher.tokens.of(waiting, Job(1)),
    }
    assert after.hear(running, *ledgers.step_lines(3, 3), first=3) == (3, None, False)


def test_a_job_that_cannot_be_launched_fails_with_the_published_sentence(desk: Desk) -> None:
    """S77: after every retry, each of which waits longer; it names no cause."""
    run_id = ledgers.submit(desk.ledger, execution={"maxAttempts": 3})
    desk.launcher.fault = OSError("no space left on device")

    desk.work()
    desk.work(after=0.5)
    assert len(desk.events(run_id, AttemptClosed)) == 1
    desk.work(after=0.6)
    desk.work(after=1.9)
    assert len(desk.events(run_id, AttemptClosed)) == 2
    desk.work(after=0.2)

    assert desk.failure(run_id).reason == (
        "this run’s job could not be started on the training cluster"
    )
    assert desk.pool.free() == ("cpu:0",)


def test_a_cancelled_run_is_told_to_stop_and_pressed_if_it_does_not(desk: Desk) -> None:
    """I3: first asked, after its grace ended by the launcher."""
    run_id = ledgers.submit(desk.ledger, execution={"stopGrace": "30s"})
    desk.work()
    desk.hear(run_id)

    desk.dispatcher.cancel(run_id, principal="tester")
    assert desk.hear(run_id) == (0, "stop", False)
    desk.work()
    desk.hear(run_id)
    assert desk.launcher.cancelled == []
    for _ in range(3):
        desk.work(after=30)
        desk.hear(run_id)
    assert desk.launcher.cancelled == [JobRef(run_id, 1)]
    desk.hear(run_id, seen=Exit(code=143))

    assert desk.phase(run_id) is Phase.CANCELLED
    assert desk.pool.free() == ("cpu:0",)


def test_a_stale_delivery_changes_nothing(desk: Desk) -> None:
    """C55: after the end, its runner hears that the attempt is closed."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, '{"kind": "completed"}', seen=Exit(code=0))
    position = desk.ledger.position()

    assert desk.hear(run_id, *ledgers.step_lines(1, 1), first=2)[2] is True
    assert desk.ledger.position() == position


def test_a_token_is_good_for_one_attempt_only(desk: Desk) -> None:
    token = desk.dispatcher.tokens.of("00000000000000aa", Job(1))

    assert desk.dispatcher.tokens.admits("00000000000000aa", Job(1), token)
    assert not desk.dispatcher.tokens.admits("00000000000000aa", Job(2), token)
    assert not desk.dispatcher.tokens.admits("00000000000000ab", Job(1), token)
    assert not desk.dispatcher.tokens.admits("00000000000000aa", Job(1), "")


# -- another attempt -------------------------------------------------------------------------------


def test_a_run_whose_worker_was_killed_goes_on_from_its_newest_snapshot(desk: Desk) -> None:
    """I6, I9, S27: committed files are copied for the next attempt, which is told where."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    saved = desk.snapshot_line(run_id, 2)
    desk.hear(run_id, *ledgers.step_lines(1, 2), saved, *ledgers.step_lines(3, 4))

    desk.hear(run_id, first=6, seen=KILLED)
    assert desk.pool.free() == ("cpu:0",)
    desk.work()

    assert [each.step for each in desk.events(run_id, SnapshotCommitted)] == [2]
    assert [(each.attempt, each.step) for each in desk.events(run_id, Restored)] == [(2, 2)]
    folder = Path(desk.launcher.submitted[-1].environment["TRAINLEDGER_RESTORE"])
    assert (folder / "trainingState" / "state.json").read_text() == "state at 2"
    assert desk.launcher.submitted[-1].ref == JobRef(run_id, 2)
    answer = desk.hear(run_id, *ledgers.step_lines(3, 5), attempt=2)
    assert answer == (3, None, False)
    assert desk.ledger.head(run_id, Job(2)).step == 5


def test_the_second_attempt_cannot_say_again_what_was_restored(desk: Desk) -> None:
    """U2, C19: update 2 is in the snapshot, so the next one is update 3."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2), desk.snapshot_line(run_id, 2), seen=KILLED)
    desk.work()

    desk.hear(run_id, *ledgers.step_lines(2, 2), attempt=2)

    stored = desk.ledger.read_run(run_id, 0, 100)[-1].event
    assert stored.reason == "step 2 was restored, the next one is later"  # type: ignore[attr-defined]


def test_without_a_snapshot_the_next_attempt_begins_at_the_start(desk: Desk) -> None:
    """D6: every update so far is superseded from that moment."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 4), seen=KILLED)

    desk.work()

    assert [(each.attempt, each.step) for each in desk.events(run_id, Restored)] == [(2, 0)]
    assert "TRAINLEDGER_RESTORE" not in desk.launcher.submitted[-1].environment


def test_a_damaged_snapshot_gives_way_to_the_one_before(desk: Desk) -> None:
    """S27, I9: one byte differs; the events say which snapshot and what is wrong with it."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    first, second = desk.snapshot_line(run_id, 2), desk.snapshot_line(run_id, 4)
    lines = [*ledgers.step_lines(1, 2), first, *ledgers.step_lines(3, 4), second]
    desk.hear(run_id, *lines)
    desk.work()
    newest = desk.events(run_id, SnapshotCommitted)[-1]
    (state,) = (desk.home / "snapshots" / run_id / newest.snapshot_id).rglob("state.json")
    state.write_text("state at 5")

    desk.hear(run_id, first=7, seen=KILLED)
    desk.work()

    (damaged,) = desk.events(run_id, SnapshotDamaged)
    assert damaged.snapshot_id == newest.snapshot_id
    assert "trainingState/state.json" in damaged.reason
    assert [each.step for each in desk.events(run_id, Restored)] == [2]


def test_an_interrupted_save_is_never_restored_and_is_removed(desk: Desk) -> None:
    """I9: the folder that was being written is gone once the attempt is closed."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2), desk.snapshot_line(run_id, 2))
    partial = desk.home / "attempts" / run_id / "a1" / "output" / "checkpoint-4.partial"
    partial.mkdir()

    desk.hear(run_id, first=4, seen=KILLED)
    desk.work()

    assert not partial.exists()
    assert [each.step for each in desk.events(run_id, Restored)] == [2]


def test_files_that_are_not_there_are_no_snapshot(desk: Desk) -> None:
    """I9: the reason is a sentence, and the run goes on."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    said = {"kind": "snapshot", "step": 2, "path": str(desk.home / "nothing")}
    lines = [*ledgers.step_lines(1, 2), json.dumps(said | {"artifacts": ["weights"]})]

    desk.hear(run_id, *lines)
    desk.work()

    (rejected,) = desk.events(run_id, SnapshotRejected)
    assert str(desk.home) not in rejected.reason
    assert desk.phase(run_id) is Phase.TRAINING


def test_only_a_folder_of_the_attempt_itself_is_removed_once_it_is_saved(desk: Desk) -> None:
    """U21: a trainer's own folder stays, and so does one that a path leads to by detours."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    line = json.loads(desk.snapshot_line(run_id, 1))
    own = desk.home / "my checkpoints"
    Path(line["path"]).rename(own)
    detour = Path(line["path"]).parent / ".." / ".." / ".." / ".." / own.name
    lines = [
        json.dumps(line | {"step": step, "path": str(path)})
        for step, path in ((1, own), (2, detour))
    ]

    desk.hear(run_id, *ledgers.step_lines(1, 2), *lines)
    desk.work()

    assert [each.step for each in desk.events(run_id, SnapshotCommitted)] == [1, 2]
    assert (own / "adapter_model.safetensors").exists()


def test_a_store_that_is_away_is_waited_for_and_the_run_says_so(desk: Desk) -> None:
    """S27: nobody calls a snapshot damaged because the disk with it is not there just now."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2), desk.snapshot_line(run_id, 2))
    desk.work()
    store = desk.home / "snapshots"
    store.rename(desk.home / "elsewhere")
    desk.hear(run_id, first=4, seen=KILLED)

    with pytest.raises(StoreError):
        desk.work()
    assert desk.events(run_id, SnapshotDamaged) == []
    assert "store" in (desk.ledger.run(run_id).waiting_for or "")
    (desk.home / "elsewhere").rename(store)
    desk.work()

    assert [each.step for each in desk.events(run_id, Restored)] == [2]


def test_a_completed_run_ends_when_its_last_snapshot_is_committed(desk: Desk) -> None:
    """I9: its devices are free before."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    last = desk.snapshot_line(run_id, 3)
    desk.hear(run_id, *ledgers.step_lines(1, 3), last, '{"kind": "completed"}', seen=Exit(code=0))
    assert desk.pool.free() == ("cpu:0",)
    assert desk.phase(run_id) is Phase.TRAINING

    desk.work()

    assert desk.phase(run_id) is Phase.COMPLETED
    kinds = [type(each.event).__name__ for each in desk.ledger.read_run(run_id, 0, 100)]
    assert kinds[-2:] == ["SnapshotCommitted", "RunCompleted"]


def test_a_restart_in_between_commits_and_goes_on_all_the_same(tmp_path: Path) -> None:
    """The to-do of snapshots is re-read from the ledger too."""
    recorder = MemoryRecorder()
    before = Desk(tmp_path, recorder)
    run_id = ledgers.submit(before.ledger)
    before.work()
    before.hear(run_id, *ledgers.step_lines(1, 2), before.snapshot_line(run_id, 2), seen=KILLED)

    after = Desk(tmp_path, recorder)
    after.work()

    assert [each.step for each in after.events(run_id, SnapshotCommitted)] == [2]
    assert [(each.attempt, each.step) for each in after.events(run_id, Restored)] == [(2, 2)]


def test_the_old_attempt_that_wakes_up_is_told_that_it_is_closed(desk: Desk) -> None:
    """C55, U3: it was killed when it was lost; what it says all the same is refused."""
    run_id = ledgers.submit(desk.ledger, execution={"lease": "60s"})
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2))
    desk.work(after=61)
    assert desk.launcher.killed == [JobRef(run_id, 1)]
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 1), attempt=2)
    position = desk.ledger.position()

    late = desk.hear(run_id, *ledgers.step_lines(3, 9), attempt=1, first=3)

    assert late == (2, None, True)
    assert desk.ledger.position() == position


def test_a_cluster_that_does_not_answer_is_asked_again_until_the_wait_is_over(desk: Desk) -> None:
    """S76: the devices are granted, and nobody takes the job."""
    run_id = ledgers.submit(desk.ledger, execution={"startupTimeout": "10m"})
    desk.launcher.fault = UnreachableError()
    for _ in range(11):
        desk.work(after=60)
    assert desk.phase(run_id) is Phase.QUEUED

    desk.work(after=60)

    assert desk.failure(run_id).reason == (
        "the training cluster could not be reached while this run waited for its devices"
    )


def test_a_cluster_that_answers_again_gets_the_job(desk: Desk) -> None:
    """S76: an outage is not yet a failure."""
    run_id = ledgers.submit(desk.ledger)
    desk.launcher.fault = UnreachableError()
    desk.work()

    desk.launcher.fault = None
    desk.work()

    assert [each.ref for each in desk.launcher.submitted] == [JobRef(run_id, 1)]


# -- pause and resume ------------------------------------------------------------------------------


def test_a_pause_saves_frees_the_devices_and_goes_on_from_there(desk: Desk) -> None:
    """I4, I5: the worker is asked to pause, and the same run is resumed."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 3))

    desk.dispatcher.pause(run_id, checkpoint="save", principal="tester")
    assert desk.hear(run_id, first=4) == (3, "pause", False)
    desk.hear(run_id, desk.snapshot_line(run_id, 3), first=4, seen=Exit(code=143))
    desk.work()
    assert desk.phase(run_id) is Phase.PAUSED
    assert desk.pool.free() == ("cpu:0",)
    desk.work(after=3600)
    assert desk.phase(run_id) is Phase.PAUSED
    desk.dispatcher.resume(run_id, principal="tester")
    desk.work()

    assert desk.phase(run_id) is Phase.QUEUED
    assert [(each.attempt, each.step) for each in desk.events(run_id, Restored)] == [(2, 3)]


def test_a_pause_that_takes_the_latest_asks_for_no_save(desk: Desk) -> None:
    """I4: the updates after the snapshot are done again."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2), desk.snapshot_line(run_id, 2))
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(3, 5), first=4)

    desk.dispatcher.pause(run_id, checkpoint="latest", principal="tester")
    assert desk.hear(run_id, first=7)[1] == "stop"
    desk.hear(run_id, first=7, seen=Exit(code=143))

    assert desk.phase(run_id) is Phase.PAUSED


def test_a_run_is_paused_between_the_end_of_its_attempt_and_its_last_snapshot(desk: Desk) -> None:
    """I4: the snapshot that is still being committed is what it will go on from."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    newest = desk.snapshot_line(run_id, 3)
    desk.hear(run_id, *ledgers.step_lines(1, 3), newest, seen=KILLED)

    desk.dispatcher.pause(run_id, checkpoint="save", principal="tester")
    assert desk.phase(run_id) is Phase.PAUSING
    desk.work()

    assert desk.phase(run_id) is Phase.PAUSED


def test_a_pause_whose_save_fails_is_withdrawn_and_the_run_goes_on(desk: Desk) -> None:
    """I4: a failed save never counts as success."""
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 3))
    desk.dispatcher.pause(run_id, checkpoint="save", principal="tester")

    failed = '{"kind": "saveFailed", "step": 3, "reason": "there is no room on the disk"}'
    answer = desk.hear(run_id, failed, first=4)

    assert answer == (4, None, False)
    assert desk.phase(run_id) is Phase.TRAINING
    assert [each.reason for each in desk.events(run_id, PauseFailed)] == [
        "there is no room on the disk"
    ]
