"""A run: what its rules need to know, folded from its events."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from ledger.errors import NotFoundError, RefusedError
from ledger.events import (
    Artifact,
    AttemptClosed,
    AttemptOpened,
    CancelRequested,
    Checkpoint,
    EndClass,
    Event,
    JobStarted,
    Origin,
    Outcome,
    PauseFailed,
    PauseRequested,
    PhaseChanged,
    Restored,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunSubmitted,
    SnapshotCommitted,
    SnapshotDamaged,
    SnapshotOffered,
    SnapshotPinned,
    SnapshotRejected,
    SnapshotsSuperseded,
    SnapshotSwept,
    SnapshotUnpinned,
)


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
    snapshot_id: str | None = None  # that it began from; None: from the start
    step: int = 0  # that it began from
    started: bool = False
    closed: bool = False


@dataclass(frozen=True)
class Offer:
    """Files that a worker wrote and that are not yet committed."""

    ordinal: int  # version of the event that made it, which tells it from all others
    attempt: int
    step: int
    path: str
    artifacts: tuple[Artifact, ...]
    epoch: float | None
    writer: dict[str, Any]
    is_superseded: bool = False  # the run went back below it meanwhile


@dataclass(frozen=True)
class Snapshot:
    """A committed snapshot, as far as rules depend on it."""

    snapshot_id: str
    step: int
    artifacts: frozenset[Artifact]  # that are still kept
    size_bytes: dict[Artifact, int]
    is_superseded: bool = False
    is_damaged: bool = False
    is_pinned: bool = False

    @property
    def is_restorable(self) -> bool:
        """Whether the run may go on from it."""
        is_whole = self.artifacts == frozenset(self.size_bytes) and not self.is_damaged
        return is_whole and "trainingState" in self.artifacts and not self.is_superseded


class Ending(NamedTuple):
    """How an attempt ended, and what that means for its run."""

    outcome: Outcome
    end_class: EndClass
    code: str
    reason: str
    advice: str = ""
    exit_code: int | None = None
    signal: int | None = None
    may_retry: bool = False  # another attempt may fare better


@dataclass(frozen=True)
class RunState:
    """What the rules of a run need to know."""

    run_id: str
    version: int
    phase: Phase
    plan: dict[str, Any]
    origin: Origin | None = None  # of a branch
    attempt: Attempt | None = None
    cancel_requested: bool = False
    pause_requested: Checkpoint | None = None
    offers: tuple[Offer, ...] = ()  # oldest first
    snapshots: tuple[Snapshot, ...] = ()  # in the order in which they were committed
    ending: Ending | None = None  # of the newest attempt, once it is closed
    last_step: int = 0  # that the closed attempt reached
    closed_at: datetime | None = None
    tries: int = 0  # attempts since the submission or the newest resume
    waiting_for: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the run is in a phase that never changes again."""
        return self.phase in TERMINAL

    @property
    def open_attempt(self) -> Attempt | None:
        """The attempt that holds devices now, if any."""
        return None if self.attempt is None or self.attempt.closed else self.attempt

    @property
    def saved(self) -> Snapshot | None:
        """The snapshot that the next attempt goes on from: the newest restorable one."""
        return next((each for each in reversed(self.snapshots) if each.is_restorable), None)

    @property
    def wants_devices(self) -> bool:
        """Whether the next thing to happen to it is an attempt."""
        is_open = self.open_attempt is not None or self.has_ended or bool(self.offers)
        return not is_open and self.phase in (Phase.SUBMITTED, Phase.WAITING)

    def snapshot(self, snapshot_id: str) -> Snapshot:
        """The snapshot of this id.

        Raises:
            NotFoundError: the run has none.
        """
        for each in self.snapshots:
            if each.snapshot_id == snapshot_id:
                return each
        raise NotFoundError(f"run {self.run_id} has no snapshot {snapshot_id}", NotFoundError.HINT)


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after ``event``; the first event of a run makes it."""
    if state is None:
        return _begin(event)
    return replace(state, version=event.originator_version, **_changes(state, event))


def _begin(event: Event) -> RunState:
    if not isinstance(event, RunSubmitted):
        raise RefusedError(f"{event.originator_id} begins with {type(event).__name__}")
    version = event.originator_version
    return RunState(event.run_id, version, Phase.SUBMITTED, event.plan, event.origin)


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
            over = {"pause_requested": None} if event.phase == "PAUSED" else {}
            changes = {"phase": Phase(event.phase), "waiting_for": event.waiting_for, **over}
        case CancelRequested():
            changes = {"cancel_requested": True}
        case PauseRequested():
            changes = {"pause_requested": event.checkpoint}
        case PauseFailed():
            changes = {"pause_requested": None}
        case RunResumed():
            changes = {"tries": 0, "ending": None}
        case RunCompleted() | RunFailed() | RunCancelled():
            changes = {"phase": ENDS[type(event)]}
    return changes | _attempt_changes(state, event) | _snapshot_changes(state, event)


def _attempt_changes(state: RunState, event: Event) -> dict[str, Any]:
    """What happens to the newest attempt."""
    match event:
        case AttemptOpened():
            attempt = Attempt(
                event.attempt,
                event.devices,
                event.token_sha256,
                event.at,
                snapshot_id=event.snapshot_id,
            )
            return {"attempt": attempt, "tries": state.tries + 1, "ending": None}
        case JobStarted() if state.attempt:
            return {"attempt": replace(state.attempt, started=True)}
        case AttemptClosed() if state.attempt:
            return {
                "attempt": replace(state.attempt, closed=True),
                "ending": _ending(event),
                "last_step": event.step,
                "closed_at": event.timestamp,
            }
        case Restored() if state.attempt:
            return {"attempt": replace(state.attempt, step=event.step)} | _supersede(state, event)
        case SnapshotsSuperseded():
            return _supersede(state, event)
    return {}


def _ending(event: AttemptClosed) -> Ending:
    return Ending(
        event.outcome,
        event.end_class,
        event.code,
        event.reason,
        event.advice,
        event.exit_code,
        event.signal,
        event.may_retry,
    )


def _supersede(state: RunState, event: Restored | SnapshotsSuperseded) -> dict[str, Any]:
    """Nothing later than the step of ``event`` is on the run's line any more."""
    return {
        name: tuple(
            replace(each, is_superseded=True) if each.step > event.step else each
            for each in getattr(state, name)
        )
        for name in ("offers", "snapshots")
    }


def _snapshot_changes(state: RunState, event: Event) -> dict[str, Any]:
    """What happens to offers and snapshots."""
    changes: dict[str, Any] = {}
    match event:
        case SnapshotOffered():
            offer = Offer(
                event.originator_version,
                event.attempt,
                event.step,
                event.path,
                event.artifacts,
                event.epoch,
                event.writer,
            )
            changes = {"offers": (*state.offers, offer)}
        case SnapshotCommitted():
            snapshot = Snapshot(
                event.snapshot_id,
                event.step,
                frozenset(event.artifacts),
                event.size_bytes,
                is_superseded=state.offers[0].is_superseded,
            )
            changes = {"offers": state.offers[1:], "snapshots": (*state.snapshots, snapshot)}
        case SnapshotRejected():
            changes = {"offers": state.offers[1:]}
        case SnapshotDamaged():
            changes = _with(state, event.snapshot_id, is_damaged=True)
        case SnapshotPinned():
            changes = _with(state, event.snapshot_id, is_pinned=True)
        case SnapshotUnpinned():
            changes = _with(state, event.snapshot_id, is_pinned=False)
        case SnapshotSwept():
            kept = state.snapshot(event.snapshot_id).artifacts - frozenset(event.artifacts)
            changes = _with(state, event.snapshot_id, artifacts=kept)
    return changes


def _with(state: RunState, snapshot_id: str, **changes: Any) -> dict[str, Any]:
    """The snapshots, one of them changed."""
    return {
        "snapshots": tuple(
            replace(each, **changes) if each.snapshot_id == snapshot_id else each
            for each in state.snapshots
        )
    }
