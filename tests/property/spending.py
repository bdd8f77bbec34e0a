"""What attempts spent, by a fold that remembers the time of every update and moves it by hand."""

from typing import Any

from ledger import events
from ledger.events import Event, Recorded, attempt_of
from projections.documents import timing


class Held:
    """An attempt that holds its devices."""

    def __init__(self, event: events.AttemptOpened, now: int) -> None:
        self.number, self.devices = event.attempt, len(event.devices)
        self.opened = self.signed = now
        self.queued: list[tuple[int, int | None]] = []
        self.began: int | None = None
        self.counted = now
        self.current: list[list[int]] = []  # step and milliseconds of each update
        self.gone: list[int] = []  # steps of updates that were taken back
        self.repeated = 0
        self.written: int | None = None
        self.last: int | None = None
        self.released: int | None = None
        self.is_kept = True  # what came after the last update

    def train(self, now: int) -> None:
        if self.began is None:
            self.began = self.counted = now

    def update(self, step: int, now: int) -> None:
        self.train(now)
        if self.current and self.current[-1][0] == step:
            self.current[-1][1] += now - self.counted
        else:
            self.current.append([step, now - self.counted])
        self.counted, self.last = now, step

    def lose(self, step: int, now: int, *, by_itself: bool) -> None:
        """The run went back to ``step``."""
        for each in [each for each in self.current if each[0] > step]:
            self.current.remove(each)
            self.gone.append(each[0])
            self.repeated += each[1]
        if by_itself and self.began is not None:
            self.repeated += now - self.counted
            self.counted = now
        if by_itself and (self.written or 0) > step:
            self.written = None
        if self.released is not None and (self.last or 0) > step:
            self.is_kept = False

    def close(self, event: events.AttemptClosed, now: int) -> None:
        alive = max(timing.millis(event.last_sign_at), self.signed)
        self.released = min(alive, now)
        paused = event.outcome == "paused" and self.last is not None and self.written == self.last
        self.is_kept = event.end_class == "completed" or paused

    def parts(self) -> dict[str, Any]:
        end = self.signed if self.released is None else self.released
        limit = end if self.began is None else self.began
        useful, repeated = sum(each for _, each in self.current), self.repeated
        if self.began is not None:
            tail = self.signed - self.counted
            useful, repeated = (
                (useful + tail, repeated) if self.is_kept else (useful, repeated + tail)
            )
        waiting = sum(
            max(min(limit, end if left is None else left) - min(entered, limit), 0)
            for entered, left in self.queued
        )
        before = (self.signed if self.began is None else self.began) - self.opened
        sums = {
            "usefulSeconds": useful,
            "repeatedSeconds": repeated,
            "preparingSeconds": max(before - waiting, 0),
            "waitingSeconds": waiting,
        }
        sums["idleSeconds"] = end - self.opened - sum(sums.values())
        gone = self.gone
        said = {"fromStep": min(gone), "toStep": max(gone), "steps": len(gone)} if gone else None
        return {part: self.devices * each for part, each in sums.items()} | {"superseded": said}


def spending(history: list[Recorded], run_id: str) -> list[dict[str, Any]]:
    """Milliseconds of all devices of every attempt, by what they were for."""
    attempts: dict[int, Held] = {}
    now = 0
    for _, event in history:
        if event.run_id == run_id:
            now = timing.reached(now, event)
            _see(attempts, event, now)
    return [each.parts() for each in attempts.values()]


def _see(attempts: dict[int, Held], event: Event, now: int) -> None:
    reporter = attempt_of(event.originator_id)
    if isinstance(event, events.Restored):
        for each in attempts.values():
            each.lose(event.step, now, by_itself=reporter == each.number)
    if reporter is not None and not isinstance(event, events.ReportsClosed):
        _hear(attempts[reporter], event, now)
    elif isinstance(event, events.AttemptOpened):
        attempts[event.attempt] = Held(event, now)
    elif attempts:
        _live(list(attempts.values())[-1], event, now)


def _hear(held: Held, event: Event, now: int) -> None:
    """Take a line of an attempt."""
    held.signed = now
    if isinstance(event, events.TrainingBegan):
        held.train(now)
    elif isinstance(event, events.StepReported):
        held.update(event.step, now)


def _live(held: Held, event: Event, now: int) -> None:
    """Take what happens to the run, and so to its newest attempt."""
    match event:
        case events.JobStarted():
            held.signed = now
        case events.SnapshotOffered() if "trainingState" in event.artifacts:
            held.written = event.step
        case events.PhaseChanged():
            _enter(held, event.phase, now)
        case events.AttemptClosed():
            held.close(event, now)


def _enter(held: Held, phase: str, now: int) -> None:
    if held.released is not None:
        return
    if held.queued and held.queued[-1][1] is None:
        held.queued[-1] = (held.queued[-1][0], now)
    if phase == "QUEUED":
        held.queued.append((now, None))
