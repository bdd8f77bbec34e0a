"""What a follower knows of a run: a pure fold over its events, with the rate of this attempt."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cli.follow import Event
from cli.render.text import Number

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED")
RATE_STEPS = 20  # the rate is that of the newest steps


@dataclass(frozen=True)
class Progress:
    """A run as of its newest event."""

    phase: str
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


def of_record(record: dict[str, Any]) -> Progress:
    """Where the run stood when its record was written."""
    stage, done = record.get("stage") or {}, record.get("progress") or {}
    return Progress(
        phase=record["phase"],
        waiting_for=record.get("waitingFor"),
        stage=stage.get("name"),
        completed=stage.get("completed"),
        total=stage.get("total"),
        step=record.get("observedStep") or 0,
        total_steps=done.get("total"),
        loss=done.get("lastLoss"),
    )


def advance(before: Progress, event: Event) -> Progress:
    """The run after ``event``."""
    match event["kind"]:
        case "phaseChanged":
            return replace(
                before,
                phase=event["phase"],
                waiting_for=event.get("waitingFor"),
                stage=None,
                completed=None,
                total=None,
            )
        case "attemptOpened":
            return replace(before, attempt=event["attempt"], recent=())
        case "trainingBegan":
            return replace(before, total_steps=event.get("totalSteps") or before.total_steps)
        case "stageReported":
            return replace(
                before,
                stage=event["stage"],
                completed=event.get("completed"),
                total=event.get("total"),
            )
        case "stepReported":
            return _stepped(before, event)
        case "validationReported":
            loss = event["measured"].get("eval_loss", event["measured"].get("loss"))
            return replace(before, validation=(event["step"], loss))
        case "restored":
            return replace(before, step=event["step"], recent=())
        case "runCompleted" | "runFailed" | "runCancelled":
            return replace(before, phase=event["phase"], reason=_reason(event))
    return before


def _stepped(before: Progress, event: Event) -> Progress:
    when = datetime.fromisoformat(event["at"]).timestamp()
    return replace(
        before,
        step=event["step"],
        loss=event["measured"].get("loss", before.loss),
        recent=(*before.recent, (event["step"], when))[-RATE_STEPS:],
    )


def _reason(event: Event) -> str | None:
    reason: str | None = (event.get("failure") or event).get("reason")
    return reason
