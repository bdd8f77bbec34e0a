"""Reports: what a worker may say, one JSON object a line of its spool.

``docs/reports.md`` is the contract for people. A report is not an event: the ledger takes a line,
checks it against what the attempt said before, and only then an event exists.
"""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    TypeAdapter,
    ValidationError,
    computed_field,
    model_validator,
)
from pydantic.alias_generators import to_camel

from ledger.numbers import Measured, Number

LINE_BYTES = 1_000_000  # a longer line is refused: reports are facts, not files
DEPTH = 100  # of mappings and lists inside each other; more cannot be written again


LAST_SECOND = 253_402_300_799  # of the year 9999: what a date can hold

Identity = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]  # strict: true and "7" are no counts
Step = Annotated[int, Field(strict=True, gt=0, le=2**53)]  # 2**53: exact as any JSON number
Said = TypeVar("Said")


class ReportError(ValueError):
    """A line of a spool that is not a report; the message names what is wrong with it."""


class Part(BaseModel):
    """A JSON object with named values."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_inf_nan="strings",
    )


class Report(Part):
    """What every report may say beside its facts."""

    at: Annotated[float, Field(ge=0, le=LAST_SECOND)] | None = None  # worker's clock, since 1970


class TrainingReport(Report):
    """Preparation is over and the first update is being computed."""

    kind: Literal["training"]
    total_steps: Step | None = None  # updates that this attempt plans to reach


class StageReport(Report):
    """The current action inside a phase, with its rows done where they can be counted."""

    kind: Literal["stage"]
    stage: Annotated[str, Field(min_length=1, max_length=200)]
    completed: Count | None = None
    total: Count | None = None


class StepReport(Report):
    """The optimizer made update ``step``, and the engine measured it."""

    kind: Literal["step"]
    step: Step
    step_seconds: NonNegativeFloat | None = None
    measured: Measured  # the engine's own names; grad_norm is before clipping
    reward_terms: Measured | None = None


class ValidationReport(Report):
    """The model was evaluated after update ``step``; 0 is before the first."""

    kind: Literal["validation"]
    step: Count
    dataset: Annotated[str, Field(max_length=500)] | None = None  # which set, if several
    measured: Measured


def _prompt(value: Any) -> Any:
    """A text, or messages as chat templates take them.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, str):
        return value
    is_chat = isinstance(value, list) and value and all(map(_is_message, value))
    if not is_chat:
        raise ValueError("expected a text, or messages that each have a role and content")
    return value


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


Prompt = Annotated[Any, AfterValidator(_prompt)]


class Scored(Part):
    """One rollout: a prompt, what the model made of it, and what that was worth."""

    prompt: Prompt
    completion: Prompt
    score: Number
    terms: Measured = {}  # the weighted share of each term of the reward


class RolloutsReport(Report):
    """Rollouts for update ``step`` were scored, in this order; more of them may follow."""

    kind: Literal["rollouts"]
    step: Step
    rollouts: Annotated[tuple[Scored, ...], Field(min_length=1)]

    @computed_field
    def count(self) -> int:
        """How many there are."""
        return len(self.rollouts)


class RestoreReport(Report):
    """The trainer went back by itself: what it said of later steps no longer counts."""

    kind: Literal["restore"]
    step: Count


class SnapshotReport(Report):
    """Files of update ``step`` are complete under ``path``."""

    kind: Literal["snapshot"]
    step: Count
    path: Annotated[str, Field(min_length=1, max_length=4_000)]
    artifacts: Annotated[tuple[Literal["weights", "trainingState"], ...], Field(min_length=1)]
    epoch: NonNegativeFloat | None = None
    writer: dict[str, Any] = {}  # what wrote it and of which shape it is


class SaveFailedReport(Report):
    """A snapshot of update ``step`` could not be written; the training goes on."""

    kind: Literal["saveFailed"]
    step: Count
    reason: Annotated[str, Field(min_length=1, max_length=4_000)]


class RestoreCheckReport(Report):
    """What was restored, compared with what was saved."""

    kind: Literal["restoreCheck"]
    step: Count
    verdict: Literal["exact", "within", "differs"]
    within: NonNegativeFloat | None = None  # the largest difference, where there is one
    parts: dict[str, Literal["exact", "within", "differs"]]


class ModelReport(Report):
    """The trained model, to be registered as what the run made."""

    kind: Literal["model"]
    path: str
    step: Count | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    size_bytes: Count | None = None


class HparamsReport(Report):
    """The resolved hyperparameters, every default included."""

    kind: Literal["hparams"]
    values: dict[str, Any]


class EngineConfigReport(Report):
    """What the engine was asked for and what it made of it."""

    kind: Literal["engineConfig"]
    requested: dict[str, Any]
    resolved: dict[str, Any]


class DatasetReport(Report):
    """Rows that were read, before anything was dropped."""

    kind: Literal["dataset"]
    rows: Count
    validation_rows: Count | None = None
    identity: Identity | None = None  # SHA-256 over the parsed rows, 64 hexadecimal digits
    validation_identity: Identity | None = None  # where they are a data set of their own


class DataFitReport(Report):
    """How the rows fit the maximum sequence length."""

    kind: Literal["dataFit"]
    rows: Count
    reached: Count  # rows of at least maxSeqLength tokens
    lost_end: Count  # rows whose target lay beyond the cut
    dropped: Count  # rows with nothing left to train on
    padding_share: Annotated[float, Field(ge=0, le=1)] | None = None  # of the batches


class Held(Part):
    """What held a device in one phase of a step; what was not measured is left out."""

    phase: Annotated[str, Field(min_length=1, max_length=100)]
    weights_bytes: Count | None = None  # of the base model
    adapter_bytes: Count | None = None
    gradients_bytes: Count | None = None
    generation_bytes: Count | None = None  # of what makes rollouts
    activations_bytes: Count | None = None  # kept for the backward pass, and buffers
    optimizer_state_bytes: Count | None = None
    overhead_bytes: Count | None = None  # of allocator, driver and runtime
    free_bytes: Count | None = None

    def total_bytes(self) -> int | None:
        """Everything that was measured; None where it is not known what was free."""
        if self.free_bytes is None:
            return None
        parts: dict[str, int] = self.model_dump(exclude={"phase"}, exclude_none=True)
        return sum(parts.values())


class Breakdown(Part):
    """What held a device in the step that reserved the most of it."""

    device: Annotated[str, Field(min_length=1, max_length=200)]
    size_bytes: Count
    reserved_bytes: Count  # at most, in that step
    peak: Held  # in the phase that held the most
    other: Held | None = None  # in the other phase of that step

    @model_validator(mode="after")
    def _is_the_device(self) -> Self:
        for held in (self.peak, self.other):
            total = self.size_bytes if held is None else held.total_bytes()
            if held is not None and total not in (None, self.size_bytes):
                raise ValueError(
                    f"the parts of {held.phase} and what is free are {total} bytes, "
                    f"and {self.device} has {self.size_bytes}"
                )
        return self


class MemoryReport(Report):
    """Peak bytes of each device so far; a device that was not measured is left out."""

    kind: Literal["memory"]
    step: Count | None = None
    peak_bytes: dict[str, Count]
    breakdown: Breakdown | None = None  # of ``step``


class StartCheckReport(Report):
    """Something was checked before the first update.

    Where the warn limit is above the refuse limit, less is worse, else more is.
    """

    kind: Literal["startCheck"]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    value: Number
    warn_limit: Number
    refuse_limit: Number
    unit: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    seconds: NonNegativeFloat
    verdict: Literal["passed", "warned", "refused"]


class RefusedReport(Report):
    """The worker read its inputs and would not train on them."""

    kind: Literal["refused"]
    reason: Annotated[str, Field(min_length=1, max_length=4_000)]


class FailedReport(Report):
    """The worker failed and knows where."""

    kind: Literal["failed"]
    cause: Literal["deviceMemory", "rolloutMemory", "handoverMemory", "hostMemory", "unknown"] = (
        "unknown"
    )


class CompletedReport(Report):
    """Everything that was asked for is done."""

    kind: Literal["completed"]


AnyReport = Annotated[
    TrainingReport
    | StageReport
    | StepReport
    | ValidationReport
    | RolloutsReport
    | RestoreReport
    | RestoreCheckReport
    | SnapshotReport
    | SaveFailedReport
    | ModelReport
    | HparamsReport
    | EngineConfigReport
    | DatasetReport
    | DataFitReport
    | MemoryReport
    | StartCheckReport
    | RefusedReport
    | FailedReport
    | CompletedReport,
    Field(discriminator="kind"),
]
_ANY: TypeAdapter[AnyReport] = TypeAdapter(AnyReport)


def parse(line: str) -> AnyReport:
    """The report that a line of a spool says.

    Raises:
        ReportError: the line is no report; the message is one sentence for people.
    """
    return read(line, _ANY)


def read(line: str, kinds: TypeAdapter[Said]) -> Said:
    """What a line says, as one of ``kinds``, which are told apart by their field kind.

    Raises:
        ReportError: the line is none of them; the message is one sentence for people.
    """
    if len(line) > LINE_BYTES:
        raise ReportError(f"the line holds {len(line)} characters, at most {LINE_BYTES} are taken")
    said = _json(line)
    if not isinstance(said, dict):
        raise ReportError(f"the line is no JSON object: {line[:80]!r}")
    is_nested = line.count("{") + line.count("[") > DEPTH  # else it cannot be that deep
    if is_nested and _is_deeper(said, DEPTH):
        raise ReportError(f"the line holds values more than {DEPTH} levels deep")
    try:
        return kinds.validate_python(said)
    except ValidationError as error:
        raise ReportError(_sentence(error)) from None


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether mappings and lists lie more than ``depth`` levels deep in ``value``."""
    level = [value]
    for _ in range(depth):
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, (dict, list))
        ]
        if not level:
            return False
    return True


def _json(line: str) -> Any:
    """The value of ``line``; Python's own NaN and Infinity tokens are understood as well."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        line.encode()
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ReportError("the line holds half a character (a lone surrogate)") from None
    except (ValueError, RecursionError):
        raise ReportError(f"the line is not JSON: {line[:80]!r}") from None
    return value


def _sentence(error: ValidationError) -> str:
    """The first fault of ``error`` as a sentence that names the field."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    kind = first["type"]
    if kind == "union_tag_not_found":
        return "the report has no kind"
    if kind == "union_tag_invalid":
        return f"the kind {first['ctx']['tag']!r} is unknown"
    if kind == "extra_forbidden":
        return f"the field {where} is unknown to a report of this kind"
    if kind == "missing":
        return f"the field {where} is missing"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"
