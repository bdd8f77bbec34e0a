"""What a follower knows of a run: a pure fold over its events, with the rate of this attempt."""

from dataclasses import dataclass, replace
from datetime import datetime

from cli.wire import Event, Json, Number

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED")
RATE_STEPS = 20  # the rate is that of the newest steps


@dataclass(frozen=True)
class Progress:
    """A run as of its newest event."""

    phase: str
    run_id: str = ""
    waiting_for: str | None = None
    stage: str | None = None
    completed: int | None = None  # rows of the stage
    total: int | None = None
    step: int = 0
    total_steps: int | None = None
    loss: Number = None
    validation: tuple[int, Number] | None = None  # step and loss
    attempt: int | None = None
    recent: tuple[tuple[int, float], ...] = ()  # steps of this attempt and when they were made
    reason: str | None = None
    note: Event | None = None  # the newest event that is worth a line of its own

    @property
    def steps_per_second(self) -> float | None:
        """The rate of the newest steps of the current attempt."""
        if len(self.recent) < 2:
            return None
        (first, began), (last, ended) = self.recent[0], self.recent[-1]
        return (last - first) / (ended - began) if ended > began else None

    @property
    def seconds_left(self) -> float | None:
        """Time that the remaining steps take at the present rate."""
        rate = self.steps_per_second
        if rate is None or rate <= 0 or self.total_steps is None:
            return None
        return max(0, self.total_steps - self.step) / rate


def of_record(record: Json) -> Progress:
    """Where the run stood when its record was written."""
    stage, done = record.get("stage") or {}, record.get("progress") or {}
    attempts = record.get("attempts") or []
    return Progress(
        phase=record["phase"],
        run_id=record["runId"],
        attempt=attempts[-1]["attempt"] if attempts else None,
        waiting_for=record.get("waitingFor"),
        stage=stage.get("name"),
        completed=stage.get("completed"),
        total=stage.get("total"),
        step=record.get("observedStep") or 0,
        total_steps=done.get("total"),
        loss=done.get("lastLoss"),
    )


def advance(before: Progress, event: Event) -> Progress:
    """The run after ``event``; kinds that say nothing about progress change nothing."""
    handler = _HANDLERS.get(event["kind"])
    return handler(before, event) if handler else before


def _noted(before: Progress, event: Event) -> Progress:
    return replace(before, note=event)


def _attempt_closed(before: Progress, event: Event) -> Progress:
    """Its end is news where the run may go on without it; else the end of the run says the same."""
    goes_on = event.get("mayRetry") or event.get("outcome") == "paused"
    return replace(before, note=event) if goes_on else before


def _preparation_closed(before: Progress, event: Event) -> Progress:
    """Its end is news where it is repeated; else the next phase or the end says the same."""
    return replace(before, note=event) if event.get("mayRetry") else before


def _restore_checked(before: Progress, event: Event) -> Progress:
    return before if event["verdict"] == "exact" else replace(before, note=event)


def _phase_changed(before: Progress, event: Event) -> Progress:
    return replace(
        before,
        phase=event["phase"],
        waiting_for=event.get("waitingFor"),
        stage=None,
        completed=None,
        total=None,
    )


def _attempt_opened(before: Progress, event: Event) -> Progress:
    return replace(before, attempt=event["attempt"], recent=())


def _training_began(before: Progress, event: Event) -> Progress:
    return replace(before, total_steps=event.get("totalSteps") or before.total_steps)


def _stage_reported(before: Progress, event: Event) -> Progress:
    return replace(
        before,
        stage=event["stage"],
        completed=event.get("completed"),
        total=event.get("total"),
    )


def _validated(before: Progress, event: Event) -> Progress:
    measured = event["measured"]
    return replace(
        before, validation=(event["step"], measured.get("eval_loss", measured.get("loss")))
    )


def _restored(before: Progress, event: Event) -> Progress:
    """Go back: what was measured later does not count, and the rate is that of what comes."""
    step = event["step"]
    kept = before.validation if before.validation and before.validation[0] <= step else None
    loss = before.loss if before.step <= step else None
    return replace(before, step=step, loss=loss, validation=kept, recent=(), note=event)


def _ended(before: Progress, event: Event) -> Progress:
    failure = event.get("failure") or {}
    return replace(before, phase=event["phase"], waiting_for=None, reason=failure.get("reason"))


def _stepped(before: Progress, event: Event) -> Progress:
    when = datetime.fromisoformat(event["at"]).timestamp()
    attempt = event.get("attempt", before.attempt)
    recent = before.recent if attempt == before.attempt else ()
    return replace(
        before,
        attempt=attempt,
        step=event["step"],
        loss=event["measured"].get("loss", before.loss),
        recent=(*recent, (event["step"], when))[-RATE_STEPS:],
    )


_HANDLERS = {
    "phaseChanged": _phase_changed,
    "attemptOpened": _attempt_opened,
    "trainingBegan": _training_began,
    "stageReported": _stage_reported,
    "stepReported": _stepped,
    "validationReported": _validated,
    "restored": _restored,
    "restoreChecked": _restore_checked,
    "preparationClosed": _preparation_closed,
    "attemptClosed": _attempt_closed,
    "pauseFailed": _noted,
    "saveFailed": _noted,
    "snapshotDamaged": _noted,
    "snapshotRejected": _noted,
    "runCompleted": _ended,
    "runFailed": _ended,
    "runCancelled": _ended,
}
