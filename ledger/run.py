"""A run: what its rules need, folded from its events, and the decisions that add to them.

Everything here is pure. A decision takes the state and answers the events that follow from it, or
raises why not; ``ledger.ledger`` stores them.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

from ledger.errors import EndedError, RefusedError
from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    CancelRequested,
    EndClass,
    Event,
    JobStarted,
    PhaseChanged,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    run_stream,
)

EventT = TypeVar("EventT", bound=Event)


class Phase(StrEnum):
    """The published state of a run."""

    SUBMITTED = "SUBMITTED"
    PREPARING = "PREPARING"
    WAITING = "WAITING"  # for devices
    QUEUED = "QUEUED"  # the job is handed over and has not begun
    TRAINING = "TRAINING"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})
_MAY_ENTER = {
    Phase.SUBMITTED: frozenset({Phase.PREPARING, Phase.WAITING, Phase.QUEUED}),
    Phase.WAITING: frozenset({Phase.QUEUED}),
    Phase.QUEUED: frozenset({Phase.PREPARING, Phase.TRAINING, Phase.CANCELLING}),
    Phase.PREPARING: frozenset({Phase.WAITING, Phase.TRAINING, Phase.CANCELLING}),
    Phase.TRAINING: frozenset({Phase.CANCELLING}),
}


class Stamp(NamedTuple):
    """When something is stored, who caused it, and when the worker says that it happened."""

    now: datetime
    principal: str
    reported_at: datetime | None = None


@dataclass(frozen=True)
class Attempt:
    """The newest attempt of a run."""

    number: int
    devices: tuple[str, ...]
    token_sha256: str
    opened_at: datetime
    started: bool = False
    closed: bool = False


@dataclass(frozen=True)
class RunState:
    """What the rules of a run need to know."""

    run_id: str
    version: int
    phase: Phase
    plan: dict[str, Any]
    attempt: Attempt | None = None
    cancel_requested: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether the run is in a phase that never changes again."""
        return self.phase in TERMINAL

    @property
    def open_attempt(self) -> Attempt | None:
        """The attempt that holds devices now, if any."""
        return None if self.attempt is None or self.attempt.closed else self.attempt


class Ending(NamedTuple):
    """How an attempt ended, and what that means for its run."""

    outcome: Literal["completed", "failed", "cancelled"]
    end_class: EndClass
    code: str
    reason: str
    advice: str = ""
    exit_code: int | None = None
    signal: int | None = None


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after ``event``; the first event of a run makes it."""
    if state is None:
        return _begin(event)
    return replace(state, version=event.originator_version, **_changes(state, event))


def _begin(event: Event) -> RunState:
    if not isinstance(event, RunSubmitted):
        raise RefusedError(f"{event.originator_id} begins with {type(event).__name__}")
    return RunState(event.run_id, event.originator_version, Phase.SUBMITTED, event.plan)


ENDS: dict[type[Event], Phase] = {
    RunCompleted: Phase.COMPLETED,
    RunFailed: Phase.FAILED,
    RunCancelled: Phase.CANCELLED,
}  # the events after which a run never changes, with the phase that each leaves it in


def _changes(state: RunState, event: Event) -> dict[str, Any]:
    """The fields of the state that ``event`` changes."""
    changes: dict[str, Any] = {}
    match event:
        case PhaseChanged():
            changes["phase"] = Phase(event.phase)
        case AttemptOpened():
            changes["attempt"] = Attempt(event.attempt, event.devices, event.token_sha256, event.at)
        case JobStarted() if state.attempt:
            changes["attempt"] = replace(state.attempt, started=True)
        case AttemptClosed() if state.attempt:
            changes["attempt"] = replace(state.attempt, closed=True)
        case CancelRequested():
            changes["cancel_requested"] = True
        case RunCompleted() | RunFailed() | RunCancelled():
            changes["phase"] = ENDS[type(event)]
    return changes


class Story:
    """The next events of a run, in order, each with the version that follows."""

    def __init__(self, state: RunState, stamp: Stamp) -> None:
        self.state = state
        self.stamp = stamp
        self.events: list[Event] = []

    def tell(self, kind: type[EventT], **facts: Any) -> None:
        """Add an event of ``kind``."""
        event = kind.model_validate(
            {
                "originator_id": run_stream(self.state.run_id),
                "originator_version": self.state.version + 1,
                "timestamp": self.stamp.now,
                "reported_at": self.stamp.reported_at,
                "principal": self.stamp.principal,
                **facts,
            }
        )
        self.events.append(event)
        self.state = evolve(self.state, event)

    def enter(self, phase: Phase, waiting_for: str | None = None) -> None:
        """Change the phase.

        Raises:
            RefusedError: ``phase`` does not follow the present one.
        """
        if phase not in _MAY_ENTER.get(self.state.phase, frozenset()):
            raise RefusedError(
                f"run {self.state.run_id} is {self.state.phase} and cannot become {phase}"
            )
        self.tell(PhaseChanged, phase=phase, waiting_for=waiting_for)


def wait_for_devices(state: RunState, stamp: Stamp, *, because: str) -> list[Event]:
    """Say that the run waits for devices; nothing when it says so already."""
    story = Story(state, stamp)
    if state.phase is not Phase.WAITING:
        story.enter(Phase.WAITING, because)
    return story.events


def open_attempt(
    state: RunState, stamp: Stamp, *, devices: tuple[str, ...], launcher: str, token_sha256: str
) -> list[Event]:
    """Claim devices for the next attempt and hand its job over."""
    if state.open_attempt is not None:
        raise RefusedError(f"attempt {state.open_attempt.number} of run {state.run_id} is open")
    story = Story(state, stamp)
    story.tell(
        AttemptOpened,
        attempt=(state.attempt.number if state.attempt else 0) + 1,
        devices=devices,
        launcher=launcher,
        token_sha256=token_sha256,
    )
    story.enter(Phase.QUEUED)
    return story.events


def start_job(state: RunState, stamp: Stamp, *, host: str, pid: int) -> list[Event]:
    """Note that the runner of the open attempt is at work; nothing when that is known."""
    story = Story(state, stamp)
    if state.open_attempt is None or state.open_attempt.started:
        return []
    story.tell(JobStarted, attempt=state.open_attempt.number, host=host, pid=pid)
    if state.phase is Phase.QUEUED:
        story.enter(Phase.PREPARING)
    return story.events


def begin_training(state: RunState, stamp: Stamp) -> list[Event]:
    """Enter TRAINING with the worker's first word of it; nothing when it is there or ending."""
    story = Story(state, stamp)
    if state.phase in (Phase.QUEUED, Phase.PREPARING):
        story.enter(Phase.TRAINING)
    return story.events


def request_cancel(state: RunState, stamp: Stamp) -> list[Event]:
    """Ask for the run to end: at once when it holds nothing, else when its job has stopped.

    Raises:
        EndedError: the run has ended. Asking twice is not an error and changes nothing.
    """
    if state.has_ended:
        raise EndedError(
            f"run {state.run_id} has ended: it is {state.phase}", "start it again as a new run"
        )
    story = Story(state, stamp)
    if state.cancel_requested:
        return []
    story.tell(CancelRequested)
    if state.open_attempt is None:
        story.tell(RunCancelled)
    else:
        story.enter(Phase.CANCELLING)
    return story.events


def close_attempt(
    state: RunState, stamp: Stamp, *, ending: Ending, lines: int, last_sign_at: datetime
) -> list[Event]:
    """Close the open attempt, and with it the run; nothing when it is closed already."""
    attempt = state.open_attempt
    if attempt is None:
        return []
    story = Story(state, stamp)
    story.tell(
        AttemptClosed,
        attempt=attempt.number,
        lines=lines,
        end_class=ending.end_class,
        reason=ending.reason,
        exit_code=ending.exit_code,
        signal=ending.signal,
        last_sign_at=last_sign_at,
    )
    match ending.outcome:
        case "completed":
            story.tell(RunCompleted)
        case "cancelled":
            story.tell(RunCancelled)
        case "failed":
            story.tell(
                RunFailed,
                code=ending.code,
                end_class=ending.end_class,
                reason=ending.reason,
                advice=ending.advice,
            )
    return story.events
