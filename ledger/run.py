"""A run: what its rules need to know, folded from its events."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from ledger.errors import NotFoundError, RefusedError
from ledger.events import (
    Artifact,
    AttemptClosed,
    AttemptOpened,
    CancelRequested,
    Checkpoint,
    EndClass,
    Event,
    Job,
    JobStarted,
    Origin,
    Outcome,
    PauseFailed,
    PauseRequested,
    PhaseChanged,
    PreparationClosed,
    PreparationOpened,
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
_MAY_PREPARE = frozenset({Phase.SUBMITTED, Phase.PREPARING})


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

    @property
    def job(self) -> Job:
        """Which of the run's jobs it is."""
        return Job(self.number)


@dataclass(frozen=True)
class Preparation:
    """The newest preparation of a run's rows."""

    number: int
    token_sha256: str
    opened_at: datetime
    closed: bool = False

    devices: ClassVar[tuple[str, ...]] = ()

    @property
    def job(self) -> Job:
        """Which of the run's jobs it is."""
        return Job(self.number, "preparation")


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
    """How a job ended, and what that means for its run."""

    outcome: Outcome
    end_class: EndClass
    code: str
    reason: str
    advice: str = ""
    exit_code: int | None = None
    signal: int | None = None
    may_retry: bool = False  # another attempt may fare better
    rank: int | None = None  # of several, the one that ended the others


@dataclass(frozen=True)
class RunState:
    """What the rules of a run need to know."""

    run_id: str
    version: int
    phase: Phase
    plan: dict[str, Any]
    origin: Origin | None = None  # of a branch
    preparation: Preparation | None = None
    is_prepared: bool = False  # a preparation put the rows where attempts find them
    attempt: Attempt | None = None
    cancel_requested: bool = False
    pause_requested: Checkpoint | None = None
    offers: tuple[Offer, ...] = ()  # oldest first
    snapshots: tuple[Snapshot, ...] = ()  # in the order in which they were committed
    ending: Ending | None = None  # of the newest job, once it is closed; None: rows are prepared
    last_step: int = 0  # that the closed attempt reached
    closed_at: datetime | None = None  # the newest job
    tries: int = 0  # jobs of the present kind since the submission or the newest resume
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
    def open_job(self) -> Attempt | Preparation | None:
        """What works for the run now, if anything does."""
        if self.preparation is not None and not self.preparation.closed:
            return self.preparation
        return self.open_attempt

    @property
    def saved(self) -> Snapshot | None:
        """The snapshot that the next attempt goes on from: the newest restorable one."""
        return next((each for each in reversed(self.snapshots) if each.is_restorable), None)

    @property
    def must_prepare(self) -> bool:
        """Whether its rows are to be prepared before devices are claimed for it.

        The engine's own workers on one device do it themselves, in less time than they would wait.
        """
        plan = self.plan
        is_ours = plan["engine"] == "trl" and plan["method"] == "SFT"
        return is_ours and plan["execution"]["devices"] > 1 and not self.is_prepared

    @property
    def wants_preparation(self) -> bool:
        """Whether the next thing to happen to it is a preparation."""
        return self._is_between_jobs and self.must_prepare and self.phase in _MAY_PREPARE

    @property
    def wants_devices(self) -> bool:
        """Whether the next thing to happen to it is an attempt."""
        may_claim = self.phase in (Phase.SUBMITTED, Phase.WAITING)
        return self._is_between_jobs and may_claim and not self.must_prepare

    @property
    def _is_between_jobs(self) -> bool:
        return self.open_job is None and not self.has_ended and not self.offers

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
    changes |= _preparation_changes(state, event)
    return changes | _attempt_changes(state, event) | _snapshot_changes(state, event)


def _preparation_changes(state: RunState, event: Event) -> dict[str, Any]:
    """What happens to the newest preparation."""
    match event:
        case PreparationOpened():
            opened = Preparation(event.preparation, event.token_sha256, event.at)
            return {"preparation": opened, "tries": state.tries + 1, "ending": None}
        case PreparationClosed() if state.preparation:
            closed = replace(state.preparation, closed=True)
            changes = {"preparation": closed, "closed_at": event.timestamp}
            if event.outcome == "completed":
                return changes | {"is_prepared": True, "tries": 0, "ending": None}
            return changes | {"ending": _ending(event)}
    return {}


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


def _ending(event: AttemptClosed | PreparationClosed) -> Ending:
    return Ending(
        event.outcome,
        event.end_class,
        event.code,
        event.reason,
        event.advice,
        event.exit_code,
        event.signal,
        event.may_retry,
        event.rank if isinstance(event, AttemptClosed) else None,
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
