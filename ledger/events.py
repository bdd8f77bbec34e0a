"""Every event that the ledger knows: past tense, frozen, with a topic that never changes.

``run/{run}`` has the life of a run, written by the server; ``run/{run}/a{n}`` has what attempt n
reported and ``run/{run}/p{n}`` what preparation n did, where the version of an event is the number
of the line in the worker's spool; ``submission/{token}`` has what a token created,
``snapshot/{id}`` which runs need a snapshot of another, ``ledger/tokens`` who may ask,
``ledger/datasets`` which rows have names, and ``ledger/seals`` what vouches for all the others. A
new field needs a default that is true of old events; where there is none, the topic gets a new
number, and ``ledger/upcast.py`` says what the old events mean.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple, NewType

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
)

from ledger.numbers import Number

RunId = NewType("RunId", str)

PhaseName = Literal[
    "SUBMITTED",
    "PREPARING",
    "WAITING",
    "QUEUED",
    "TRAINING",
    "PAUSING",
    "PAUSED",
    "CANCELLING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
]
EndClass = Literal["completed", "input", "resource", "infrastructure", "stopped", "unknown"]
Outcome = Literal["completed", "failed", "cancelled", "paused"]
Checkpoint = Literal["save", "latest"]
Artifact = Literal["weights", "trainingState"]
Agreement = Literal["exact", "within", "differs"]
CheckVerdict = Literal["passed", "warned", "refused"]
Restore = Literal["weights", "trainingState"]
RoleName = Literal["reader", "submitter", "operator"]
RowForm = Literal["chat", "tokens"]
# Numbers under the engine's own names. They were looked at where they came in (ledger/numbers.py),
# so that reading them again needs no Python: an update is decoded in half the time (2026-11-30).
Measured = dict[str, float]
JobKind = Literal["attempt", "preparation"]


class Job(NamedTuple):
    """What is started on machines for a run: an attempt at it, or the preparation of its rows."""

    number: int  # of its kind in the run, from 1
    kind: JobKind = "attempt"

    @property
    def name(self) -> str:
        """What its stream and its folder are called in those of its run: ``a1``, ``p1``."""
        return f"{self.kind[0]}{self.number}"

    @property
    def principal(self) -> str:
        """Who causes what it reports."""
        return f"{self.kind}/{self.number}"

    def __str__(self) -> str:
        """What sentences call it."""
        return f"{self.kind} {self.number}"


class Event(BaseModel):
    """What every event says: which stream, which place in it, when, and who."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
    TOPIC: ClassVar[str]  # the name that the database keeps; survives a move of the class

    originator_id: str  # the stream
    originator_version: PositiveInt  # place in the stream: from 1, without gaps
    timestamp: AwareDatetime  # UTC, the server's clock when the event was stored
    reported_at: AwareDatetime | None = None  # UTC, the worker's clock, where it said so
    principal: str  # who caused it

    @property
    def run_id(self) -> RunId:
        """The run whose story the event belongs to."""
        return RunId(self.originator_id.split("/")[1])

    @property
    def at(self) -> datetime:
        """When it happened: the worker's word, but never later than it was stored."""
        if self.reported_at is None:
            return self.timestamp
        return min(self.reported_at, self.timestamp)


# -- the life of a run: stream run/{run} -----------------------------------------------------------


class Origin(BaseModel):
    """The snapshot of another run that a branch begins from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: str
    snapshot_id: str
    step: NonNegativeInt  # of the parent
    restore: Restore


class RunSubmitted(Event):
    """A plan was accepted and its defaults were frozen."""

    TOPIC: ClassVar[str] = "run.submitted.v1"

    submission_id: str
    plan: dict[str, Any]  # resolved: every default filled in
    stated: tuple[str, ...]  # dotted names that the plan itself set
    origin: Origin | None = None  # of a branch


class PhaseChanged(Event):
    """The run entered ``phase``."""

    TOPIC: ClassVar[str] = "run.phase_changed.v1"

    phase: PhaseName
    waiting_for: str | None = None  # what holds the run up, as a sentence


class PreparationOpened(Event):
    """A job that prepares the rows, and holds no devices, is being handed over."""

    TOPIC: ClassVar[str] = "run.preparation_opened.v1"

    preparation: PositiveInt
    launcher: str
    token_sha256: str  # of the token that its runner reports with


class PreparationClosed(Event):
    """The preparation is over; nothing it says counts any more."""

    TOPIC: ClassVar[str] = "run.preparation_closed.v1"

    preparation: PositiveInt
    lines: NonNegativeInt  # of the spool that were taken
    outcome: Outcome
    code: str  # stable, for programs
    end_class: EndClass
    reason: str  # one sentence for people
    advice: str = ""  # what to do about it
    may_retry: bool = False  # another preparation may fare better
    exit_code: int | None = None  # of its process, where it was seen
    signal: int | None = None  # that ended its process, where it was seen
    last_sign_at: AwareDatetime  # when it was last known to be alive


class AttemptOpened(Event):
    """Devices were claimed for attempt ``attempt``, and its job is being handed over."""

    TOPIC: ClassVar[str] = "run.attempt_opened.v1"

    attempt: PositiveInt
    devices: tuple[str, ...]
    launcher: str
    token_sha256: str  # of the token that the attempt's runner reports with
    snapshot_id: str | None = None  # what it begins from; None: from the start


class JobStarted(Event):
    """The attempt's runner is at work on the devices' machine."""

    TOPIC: ClassVar[str] = "run.job_started.v1"

    attempt: PositiveInt
    host: str
    pid: NonNegativeInt


class CancelRequested(Event):
    """Somebody asked for the run to end."""

    TOPIC: ClassVar[str] = "run.cancel_requested.v1"


class PauseRequested(Event):
    """Somebody asked for the run to give its devices back for a while."""

    TOPIC: ClassVar[str] = "run.pause_requested.v1"

    checkpoint: Checkpoint  # save: keep every update so far; latest: go back to what is saved


class PauseFailed(Event):
    """The run goes on, since what it did could not be saved."""

    TOPIC: ClassVar[str] = "run.pause_failed.v1"

    reason: str


class RunResumed(Event):
    """Somebody asked for a paused run to go on."""

    TOPIC: ClassVar[str] = "run.resumed.v1"


class RunAnnotated(Event):
    """Somebody put words to the run, which change nothing else; an empty text takes one away."""

    TOPIC: ClassVar[str] = "run.annotated.v1"

    name: str | None = None  # None: as it was
    description: str | None = None  # None: as it was
    labels: dict[str, str] = {}  # those that change


class AttemptClosed(Event):
    """The attempt's job is over and its devices are free; nothing it says counts any more."""

    TOPIC: ClassVar[str] = "run.attempt_closed.v2"

    attempt: PositiveInt
    lines: NonNegativeInt  # of the spool that were taken
    step: NonNegativeInt = 0  # newest update
    outcome: Outcome
    code: str = ""  # stable, for programs
    end_class: EndClass
    reason: str  # one sentence for people
    advice: str = ""  # what to do about it
    may_retry: bool = False  # another attempt may fare better
    exit_code: int | None = None  # of the worker, where it was seen
    signal: int | None = None  # that ended the worker, where it was seen
    rank: NonNegativeInt | None = None  # of several, the one that ended the others, from 0
    last_sign_at: AwareDatetime  # when the attempt was last known to be alive


class SnapshotOffered(Event):
    """A worker wrote files of update ``step``; they wait to be committed."""

    TOPIC: ClassVar[str] = "run.snapshot_offered.v1"

    attempt: PositiveInt
    step: NonNegativeInt
    path: str
    artifacts: tuple[Artifact, ...]
    epoch: NonNegativeFloat | None = None
    writer: dict[str, Any] = {}  # what wrote it and of which shape it is, in the worker's words


class SnapshotCommitted(Event):
    """The files offered as ``path`` are complete, hashed, on disk, and can be restored from."""

    TOPIC: ClassVar[str] = "run.snapshot_committed.v1"

    snapshot_id: str  # SHA-256 of the manifest, which has the SHA-256 of every file
    attempt: PositiveInt
    step: NonNegativeInt
    path: str
    artifacts: tuple[Artifact, ...]
    epoch: NonNegativeFloat | None = None
    uri: str  # where its files are
    size_bytes: dict[Artifact, NonNegativeInt]
    digests: dict[Artifact, str]  # SHA-256 over names and digests of the files of each kind


class SnapshotRejected(Event):
    """The files offered as ``path`` cannot be a snapshot."""

    TOPIC: ClassVar[str] = "run.snapshot_rejected.v1"

    attempt: PositiveInt
    step: NonNegativeInt
    path: str
    reason: str


class SnapshotDamaged(Event):
    """The files of a snapshot are no longer what was committed."""

    TOPIC: ClassVar[str] = "run.snapshot_damaged.v1"

    snapshot_id: str
    reason: str


class SnapshotsSuperseded(Event):
    """The run went back to ``step``: it is not restored from later snapshots any more."""

    TOPIC: ClassVar[str] = "run.snapshots_superseded.v1"

    step: NonNegativeInt


class SnapshotPinned(Event):
    """Somebody wants a snapshot kept."""

    TOPIC: ClassVar[str] = "run.snapshot_pinned.v1"

    snapshot_id: str


class SnapshotUnpinned(Event):
    """A snapshot is kept for as long as the plan says."""

    TOPIC: ClassVar[str] = "run.snapshot_unpinned.v1"

    snapshot_id: str


class SnapshotSwept(Event):
    """These artifacts of a snapshot are given up; their files are deleted after this."""

    TOPIC: ClassVar[str] = "run.snapshot_swept.v1"

    snapshot_id: str
    artifacts: tuple[Artifact, ...]
    freed_bytes: NonNegativeInt


class RunCompleted(Event):
    """Everything that the plan asked for is done."""

    TOPIC: ClassVar[str] = "run.completed.v1"


class RunFailed(Event):
    """The run ended without a result."""

    TOPIC: ClassVar[str] = "run.failed.v1"

    code: str  # stable, for programs
    end_class: EndClass
    reason: str  # the published sentence, or the refusal's own words
    advice: str  # what to do about it


class RunCancelled(Event):
    """The run ended because somebody asked for it."""

    TOPIC: ClassVar[str] = "run.cancelled.v1"


# -- what a job reported: stream run/{run}/a{n}, of a preparation run/{run}/p{n} -------------------


class TrainingBegan(Event):
    """Preparation was over and the first update was being computed."""

    TOPIC: ClassVar[str] = "run.training_began.v1"

    total_steps: PositiveInt | None = None


class StageReported(Event):
    """The current action inside a phase, with its rows done where they can be counted."""

    TOPIC: ClassVar[str] = "run.stage_reported.v1"

    stage: str
    completed: NonNegativeInt | None = None
    total: NonNegativeInt | None = None


class StepReported(Event):
    """The optimizer made update ``step``, and the engine measured it."""

    TOPIC: ClassVar[str] = "run.step_reported.v1"

    step: NonNegativeInt  # updates of this run, from 1; an imported run may count from 0
    step_seconds: NonNegativeFloat | None = None
    measured: Measured  # grad_norm is before clipping
    reward_terms: Measured | None = None


class ValidationReported(Event):
    """The model was evaluated after update ``step``; 0 is before the first."""

    TOPIC: ClassVar[str] = "run.validation_reported.v1"

    step: NonNegativeInt
    dataset: str | None = None
    measured: Measured


class Rollout(BaseModel):
    """What a model made of one prompt, and what that was worth."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    prompt: Any  # a text, or messages with role and content
    completion: Any  # the same
    score: float
    terms: Measured = {}  # the weighted share of each term of the reward


class RolloutsScored(Event):
    """Rollouts for update ``step`` were scored; those of an update may come in several parts."""

    TOPIC: ClassVar[str] = "run.rollouts_scored.v1"

    step: PositiveInt
    count: PositiveInt
    rollouts: tuple[Rollout, ...]  # in the order of scoring: prompt, completion, score and terms


class Restored(Event):
    """The run went back to the state as of ``step``; later steps are superseded.

    In the run's own stream where an attempt begins so, else in the stream of the attempt that went
    back by itself.
    """

    TOPIC: ClassVar[str] = "run.restored.v1"

    step: NonNegativeInt
    attempt: PositiveInt | None = None  # in the run's stream: the attempt that begins
    snapshot_id: str | None = None  # None: from the start, or from what the trainer kept


class RestoreChecked(Event):
    """The worker compared what it restored with what was saved."""

    TOPIC: ClassVar[str] = "run.restore_checked.v1"

    step: NonNegativeInt
    verdict: Agreement
    within: NonNegativeFloat | None = None  # the largest difference, where there is one
    parts: dict[str, Agreement]


class SnapshotReported(Event):
    """The worker wrote files of update ``step``; they are not yet a committed snapshot."""

    TOPIC: ClassVar[str] = "run.snapshot_reported.v1"

    step: NonNegativeInt
    path: str
    artifacts: tuple[Artifact, ...]
    epoch: NonNegativeFloat | None = None
    writer: dict[str, Any] = {}


class SaveFailed(Event):
    """The worker could not write a snapshot of update ``step``, and goes on."""

    TOPIC: ClassVar[str] = "run.save_failed.v1"

    step: NonNegativeInt
    reason: str


class ModelRegistered(Event):
    """The trained model became what the run made."""

    TOPIC: ClassVar[str] = "run.model_registered.v1"

    path: str
    step: NonNegativeInt | None = None
    sha256: str | None = None  # of the weights file
    size_bytes: NonNegativeInt | None = None


class HparamsResolved(Event):
    """The hyperparameters as the worker used them, every default included."""

    TOPIC: ClassVar[str] = "run.hparams_resolved.v1"

    values: dict[str, Any]


class EngineConfigured(Event):
    """What the engine was asked for and what it made of it."""

    TOPIC: ClassVar[str] = "run.engine_configured.v1"

    requested: dict[str, Any]
    resolved: dict[str, Any]


class DatasetRead(Event):
    """The rows were read, before anything was dropped."""

    TOPIC: ClassVar[str] = "run.dataset_read.v1"

    rows: NonNegativeInt
    validation_rows: NonNegativeInt | None = None
    identity: str | None = None  # SHA-256 over the parsed rows, 64 hexadecimal digits
    validation_identity: str | None = None  # where they are a data set of their own


class DataFitMeasured(Event):
    """How the rows fit the maximum sequence length."""

    TOPIC: ClassVar[str] = "run.data_fit_measured.v1"

    rows: NonNegativeInt
    reached: NonNegativeInt
    lost_end: NonNegativeInt
    dropped: NonNegativeInt
    padding_share: NonNegativeFloat | None = None


class Held(BaseModel):
    """What held a device in one phase of a step; None: not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: str
    weights_bytes: NonNegativeInt | None = None
    adapter_bytes: NonNegativeInt | None = None
    gradients_bytes: NonNegativeInt | None = None
    generation_bytes: NonNegativeInt | None = None
    activations_bytes: NonNegativeInt | None = None
    optimizer_state_bytes: NonNegativeInt | None = None
    overhead_bytes: NonNegativeInt | None = None
    free_bytes: NonNegativeInt | None = None


class Breakdown(BaseModel):
    """What held a device in the step that reserved the most of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    size_bytes: NonNegativeInt
    reserved_bytes: NonNegativeInt
    peak: Held
    other: Held | None = None


class MemoryMeasured(Event):
    """Peak bytes of each device so far."""

    TOPIC: ClassVar[str] = "run.memory_measured.v1"

    step: NonNegativeInt | None = None
    peak_bytes: dict[str, NonNegativeInt]
    breakdown: Breakdown | None = None  # of that step; None: nobody measured one


class StartChecked(Event):
    """Something was checked before the first update.

    Where the warn limit is above the refuse limit, less is worse, else more is.
    """

    TOPIC: ClassVar[str] = "run.start_checked.v1"

    name: str
    value: Number
    warn_limit: Number
    refuse_limit: Number
    unit: str | None = None
    seconds: NonNegativeFloat  # that the check took
    verdict: CheckVerdict


class WorkerRefused(Event):
    """The worker read its inputs and would not train on them."""

    TOPIC: ClassVar[str] = "run.worker_refused.v1"

    reason: str


class WorkerFailed(Event):
    """The worker failed and knew where."""

    TOPIC: ClassVar[str] = "run.worker_failed.v1"

    cause: str


class WorkerCompleted(Event):
    """The worker had done everything that was asked for."""

    TOPIC: ClassVar[str] = "run.worker_completed.v1"


class LineRejected(Event):
    """A line of the spool was no report, or contradicted what was said before."""

    TOPIC: ClassVar[str] = "run.line_rejected.v1"

    reason: str
    text: str  # the line as it came


class ReportsClosed(Event):
    """The attempt or preparation is fenced: its stream takes nothing after this."""

    TOPIC: ClassVar[str] = "run.reports_closed.v1"


# -- a submission token: stream submission/{token} -------------------------------------------------


class SubmissionAccepted(Event):
    """The token created one run, from the plan with this digest."""

    TOPIC: ClassVar[str] = "submission.accepted.v1"

    created_run: str
    plan_sha256: str


class BranchRequested(Event):
    """The token asked for one branch; it is durable, and its child has an id already."""

    TOPIC: ClassVar[str] = "branch.requested.v1"

    child: str
    origin: Origin
    steps: PositiveInt  # budget of additional updates
    plan: dict[str, Any]  # of the child, resolved
    stated: tuple[str, ...]
    overrides: dict[str, Any]
    request_sha256: str
    config_name: str | None = None
    description: str | None = None


class SourceHeld(Event):
    """The snapshot is held for the child; its files are being verified."""

    TOPIC: ClassVar[str] = "branch.source_held.v1"


class BranchCreated(Event):
    """The source is held, and the child run was submitted."""

    TOPIC: ClassVar[str] = "branch.created.v1"

    child: str


class BranchRefused(Event):
    """The child cannot be made; nothing is held for it."""

    TOPIC: ClassVar[str] = "branch.refused.v1"

    reason: str
    advice: str


# -- what others do with a snapshot: stream snapshot/{id} ------------------------------------------


class SnapshotHeld(Event):
    """Run ``holder`` needs the snapshot until it has ended."""

    TOPIC: ClassVar[str] = "snapshot.held.v1"

    run: str  # whose snapshot it is
    holder: str


class SnapshotReleased(Event):
    """Run ``holder`` needs the snapshot no more."""

    TOPIC: ClassVar[str] = "snapshot.released.v1"

    run: str
    holder: str


# -- who may ask: stream ledger/tokens -------------------------------------------------------------


class TokenCreated(Event):
    """A token was made for somebody, who may do with it what its role allows."""

    TOPIC: ClassVar[str] = "token.created.v1"

    token_id: str
    name: str  # of who has it
    role: RoleName
    token_sha256: str  # of the token, which is written nowhere
    expires_at: AwareDatetime | None = None  # UTC; None: it does not expire


class TokenRevoked(Event):
    """A token counts no more."""

    TOPIC: ClassVar[str] = "token.revoked.v1"

    token_id: str


# -- data sets: stream ledger/datasets -------------------------------------------------------------


class DatasetCreated(Event):
    """Rows were taken into the catalogue."""

    TOPIC: ClassVar[str] = "dataset.created.v1"

    identity: str  # SHA-256 over the parsed rows, 64 hexadecimal digits
    form: RowForm
    rows: PositiveInt
    size_bytes: NonNegativeInt  # of the file that they were read from


class DatasetNamed(Event):
    """A name means a data set from now on, whatever it meant before."""

    TOPIC: ClassVar[str] = "dataset.named.v1"

    name: str
    identity: str


# -- the ledger itself: stream ledger/seals --------------------------------------------------------


class Head(BaseModel):
    """The newest event of a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: PositiveInt
    digest: str  # SHA-256 over the event as it is stored


class LedgerSealed(Event):
    """Everything up to a position was vouched for: what is changed there later does not fit."""

    TOPIC: ClassVar[str] = "ledger.sealed.v1"

    upto: PositiveInt  # position of the newest event that it covers
    events: PositiveInt  # from the first one to that one
    digest: str  # rolled over the digests of all of these, in the order of the ledger
    heads: dict[str, Head]  # of the streams that grew since the seal before
    signature: str | None = None  # Ed25519, 128 hexadecimal digits; None: the server has no key
    public_key: str | None = None  # that it can be checked with, 64 hexadecimal digits


class UnknownEvent(Event):
    """An event of a topic that this version does not know, kept as it was stored."""

    TOPIC: ClassVar[str] = ""

    topic: str
    payload: bytes


EVENTS: tuple[type[Event], ...] = (
    RunSubmitted,
    PhaseChanged,
    PreparationOpened,
    PreparationClosed,
    AttemptOpened,
    JobStarted,
    CancelRequested,
    PauseRequested,
    PauseFailed,
    RunResumed,
    RunAnnotated,
    AttemptClosed,
    SnapshotOffered,
    SnapshotCommitted,
    SnapshotRejected,
    SnapshotDamaged,
    SnapshotsSuperseded,
    SnapshotPinned,
    SnapshotUnpinned,
    SnapshotSwept,
    RunCompleted,
    RunFailed,
    RunCancelled,
    TrainingBegan,
    StageReported,
    StepReported,
    ValidationReported,
    RolloutsScored,
    Restored,
    RestoreChecked,
    SnapshotReported,
    SaveFailed,
    ModelRegistered,
    HparamsResolved,
    EngineConfigured,
    DatasetRead,
    DataFitMeasured,
    MemoryMeasured,
    StartChecked,
    WorkerRefused,
    WorkerFailed,
    WorkerCompleted,
    LineRejected,
    ReportsClosed,
    SubmissionAccepted,
    BranchRequested,
    SourceHeld,
    BranchCreated,
    BranchRefused,
    SnapshotHeld,
    SnapshotReleased,
    TokenCreated,
    TokenRevoked,
    DatasetCreated,
    DatasetNamed,
    LedgerSealed,
)

ARCHIVABLE = frozenset(
    {
        *(StageReported, StepReported, ValidationReported, RolloutsScored, MemoryMeasured),
        LineRejected,
    }
)  # the bulk: of a run that has ended, they may be kept as Parquet with their digest in the ledger

REGISTRY: dict[str, type[Event]] = {kind.TOPIC: kind for kind in EVENTS}


_KINDS: dict[str, JobKind] = {"a": "attempt", "p": "preparation"}


def job_of(stream: str) -> Job | None:
    """The job whose reports ``stream`` holds; None for any other stream."""
    parts = stream.split("/")
    if len(parts) == 3 and parts[0] == "run" and parts[2][:1] in _KINDS:
        return Job(int(parts[2][1:]), _KINDS[parts[2][:1]])
    return None


def attempt_of(stream: str) -> int | None:
    """The attempt whose reports ``stream`` holds; None for any other stream."""
    job = job_of(stream)
    return job.number if job is not None and job.kind == "attempt" else None


def run_stream(run_id: str) -> str:
    """The stream that holds the life of a run."""
    return f"run/{run_id}"


def job_stream(run_id: str, job: Job) -> str:
    """The stream that holds what a job of a run reported."""
    return f"run/{run_id}/{job.name}"


def attempt_stream(run_id: str, attempt: int) -> str:
    """The stream that holds what attempt ``attempt`` of a run reported."""
    return job_stream(run_id, Job(attempt))


def snapshot_stream(snapshot_id: str) -> str:
    """The stream that holds which runs need a snapshot."""
    return f"snapshot/{snapshot_id}"


def submission_stream(token: str) -> str:
    """The stream that holds which run a submission token created."""
    return f"submission/{token}"


TOKENS = "ledger/tokens"  # the stream that holds who may ask
DATASETS = "ledger/datasets"  # the stream that holds which rows were taken in, and their names
SEALS = "ledger/seals"  # the stream that holds what vouches for all the others


class Recorded(NamedTuple):
    """An event with its place in the whole ledger."""

    position: int  # from 1, rising; gaps are possible on some databases
    event: Event
