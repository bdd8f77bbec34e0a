"""The process manager over a real ledger, with a launcher and clocks that a test moves."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from engine.dispatch.dispatcher import Dispatcher, Runner
from engine.dispatch.launcher import JobRef, JobState, LaunchRequest
from engine.dispatch.pool import DevicePool
from engine.failures import Exit
from ledger.events import AttemptClosed, PhaseChanged, RunFailed
from ledger.ledger import Ledger
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from ledger.store.recorder import LedgerRecorder
from tests import ledgers, make

RUNNER = Runner("here", 7, make.moment(1))


class FakeLauncher:
    """Starts nothing; remembers what it was asked for, and says what a test tells it to."""

    name = "fake"

    def __init__(self) -> None:
        self.submitted: list[LaunchRequest] = []
        self.cancelled: list[JobRef] = []
        self.states: dict[JobRef, JobState] = {}
        self.is_broken = False

    def submit(self, request: LaunchRequest) -> JobRef:
        if self.is_broken:
            raise OSError("no space left on device")
        self.submitted.append(request)
        return request.ref

    def observe(self, refs: Iterable[JobRef]) -> dict[JobRef, JobState]:
        return {ref: self.states.get(ref, JobState.ALIVE) for ref in refs}

    def cancel(self, ref: JobRef) -> None:
        self.cancelled.append(ref)


class Desk:
    """A dispatcher with its ledger, launcher and clocks."""

    def __init__(
        self, recorder: LedgerRecorder | None = None, slots: tuple[str, ...] = ("cpu:0",)
    ) -> None:
        self.seconds = 0.0
        self.ledger = Ledger(recorder or MemoryRecorder(), clock=self.now)
        self.launcher = FakeLauncher()
        self.pool = DevicePool(slots)
        self.dispatcher = Dispatcher(
            self.ledger,
            self.launcher,
            self.pool,
            secret=b"secret",
            clock=self.now,
            monotonic=lambda: self.seconds,
        )

    def now(self) -> datetime:
        return make.START + timedelta(seconds=self.seconds)

    def work(self, after: float = 1.0) -> None:
        self.seconds += after
        self.dispatcher.work()

    def hear(
        self, run_id: str, *lines: str, first: int = 1, seen: Exit | None = None, at: float = 50
    ) -> tuple[int, str | None, bool]:
        end = None if seen is None else (seen, make.moment(at))
        return tuple(  # type: ignore[return-value]
            self.dispatcher.hear(run_id, 1, runner=RUNNER, first=first, lines=lines, seen=end)
        )

    def phase(self, run_id: str) -> Phase:
        return self.ledger.run(run_id).phase

    def failure(self, run_id: str) -> RunFailed:
        event = self.ledger.read_run(run_id, 0, 100)[-1].event
        assert isinstance(event, RunFailed)
        return event


@pytest.fixture
def desk() -> Desk:
    return Desk()


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


def test_a_large_run_is_not_overtaken_by_later_small_ones() -> None:
    desk = Desk(slots=("cpu:0", "cpu:1"))
    command = {"command": ["train"]}
    ledgers.submit(desk.ledger)
    large = ledgers.submit(desk.ledger, engine=command, execution={"devices": 2})
    small = ledgers.submit(desk.ledger)

    desk.work()

    assert desk.phase(large) is Phase.WAITING
    assert desk.phase(small) is Phase.WAITING


def test_an_attempt_that_is_silent_for_longer_than_its_lease_is_lost(desk: Desk) -> None:
    """U3, U4: the run fails, as of its last sign of life and not of the discovery."""
    run_id = ledgers.submit(desk.ledger, execution={"lease": "60s"})
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
    assert desk.launcher.cancelled == [JobRef(run_id, 1)]
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
    run_id = ledgers.submit(desk.ledger)
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(1, 2))

    desk.launcher.states[JobRef(run_id, 1)] = JobState.GONE
    desk.work()
    desk.hear(run_id, *ledgers.step_lines(3, 3), first=3, seen=Exit(seen=False))

    assert [request.ref for request in desk.launcher.submitted] == [JobRef(run_id, 1)] * 2
    assert desk.failure(run_id).reason == "the training job stopped before it finished"
    assert desk.ledger.attempt(run_id, 1).step == 3


def test_a_restarted_server_adopts_what_it_finds_in_the_ledger() -> None:
    """The to-do is re-read from the ledger: devices stay held, the launch is done again."""
    recorder = MemoryRecorder()
    before = Desk(recorder, slots=("cpu:0", "cpu:1"))
    running, waiting = ledgers.submit(before.ledger), ledgers.submit(before.ledger)
    before.pool.hold("somebody", ["cpu:1"])
    before.work()
    before.hear(running, *ledgers.step_lines(1, 2))

    after = Desk(recorder, slots=("cpu:0", "cpu:1"))
    after.work()

    assert after.pool.held(running) == ("cpu:0",)
    assert after.pool.held(waiting) == ("cpu:1",)
    assert {request.token for request in after.launcher.submitted} == {
        after.dispatcher.token(running, 1),
        after.dispatcher.token(waiting, 1),
    }
    assert after.hear(running, *ledgers.step_lines(3, 3), first=3) == (3, None, False)


def test_a_job_that_cannot_be_launched_fails_with_the_published_sentence(desk: Desk) -> None:
    """S77: it names no cause."""
    run_id = ledgers.submit(desk.ledger)
    desk.launcher.is_broken = True

    desk.work()

    assert desk.failure(run_id).reason == (
        "this run’s job could not be started on the training cluster"  # noqa: RUF001
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
    token = desk.dispatcher.token("00000000000000aa", 1)

    assert desk.dispatcher.admits("00000000000000aa", 1, token)
    assert not desk.dispatcher.admits("00000000000000aa", 2, token)
    assert not desk.dispatcher.admits("00000000000000ab", 1, token)
    assert not desk.dispatcher.admits("00000000000000aa", 1, "")
