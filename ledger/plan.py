"""The plan: what a user asks for, and how its defaults are filled in once, at submission.

Unknown fields are refused by name. ``resolve`` answers the whole document together with the names
that the plan itself stated, so that a default that changes later never rewrites an old run.
"""

import re
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from ledger.errors import PlanError
from ledger.masking import secret_argument
from ledger.numbers import Measured, Number

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h|d)$")


def seconds(value: Any) -> Any:
    """Seconds of a duration such as ``10m``, ``90s`` or ``2h``; plain numbers are seconds."""
    if isinstance(value, str):
        found = _DURATION.match(value.strip())
        if not found:
            raise ValueError(f"{value!r} is no duration; write for example 30s, 10m or 2h")
        return float(found[1]) * _UNITS[found[2]]
    return value


Duration = Annotated[PositiveFloat, BeforeValidator(seconds)]
Label = Annotated[str, Field(min_length=1, max_length=10_000)]


class Part(BaseModel):
    """One mapping of the plan document."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )


class Validation(Part):
    """Rows that are kept apart, and how often the loss on them is measured."""

    fraction: Annotated[float, Field(ge=0, lt=1)] | None = None  # share of the dataset's rows
    dataset: Label | None = None
    every: PositiveInt = 20  # updates between two validations; the last update always has one

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.fraction is not None and self.dataset is not None:
            raise ValueError("state fraction or dataset, not both")
        return self


class Schedule(Part):
    """The learning rate over the updates of the run."""

    kind: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.03


class Lora(Part):
    """The adapter that is trained."""

    rank: PositiveInt = 16
    alpha: PositiveFloat = 32.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    target_modules: Literal["all-linear"] | tuple[Label, ...] = "all-linear"


class ModelOptions(Part):
    """How the base model is held."""

    gradient_checkpointing: bool = False
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class Config(Part):
    """What decides the numbers: two runs with equal configuration train the same rows."""

    learning_rate: PositiveFloat = 2.0e-4
    epochs: PositiveFloat | None = None
    max_steps: PositiveInt | None = None
    sequences_per_update: PositiveInt = 16
    max_seq_length: PositiveInt = 1024
    seed: NonNegativeInt = 0
    max_grad_norm: PositiveFloat = 1.0
    weight_decay: NonNegativeFloat = 0.0
    kl_beta: NonNegativeFloat | None = None  # reinforcement: weight of leaving the reference
    schedule: Schedule = Schedule()
    lora: Lora = Lora()
    model: ModelOptions = ModelOptions()

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.epochs is not None and self.max_steps is not None:
            raise ValueError("state epochs or maxSteps, not both")
        return self


Crash = Literal[
    "exception",
    "SIGKILL",
    "SIGTERM",
    "exit0",
    "deviceMemory",
    "rolloutMemory",
    "handoverMemory",
    "hostMemory",
]


class SimCheck(Part):
    """A start check of a scripted trainer."""

    model_config = ConfigDict(allow_inf_nan=True)

    name: Label
    value: Number
    warn_limit: Number
    refuse_limit: Number  # below warnLimit, less is worse
    unit: Label | None = None


_WITH_ACTIONS = frozenset(
    {"attempt", "completed", "total", "save_every", "rollouts", "measured", "seconds"}
)  # what an instruction of a script may state beside its action


class SimStep(Part):
    """One instruction of a scripted trainer; exactly one action is stated.

    ``seconds`` is the pause before each thing that the instruction says.
    """

    model_config = ConfigDict(allow_inf_nan=True)  # what a diverged run measures can be scripted

    attempt: PositiveInt | None = None  # with any action: only in this attempt
    stage: Label | None = None
    completed: NonNegativeInt | None = None  # with stage
    total: NonNegativeInt | None = None  # with stage
    training: NonNegativeInt | None = None  # announce the training; 0: total not known
    steps: PositiveInt | None = None  # so many updates after the last one
    save_every: PositiveInt | None = None  # with steps: save every update that it divides
    step: PositiveInt | None = None  # this very update
    validation: NonNegativeInt | None = None  # evaluate after this update
    restore: NonNegativeInt | None = None  # go back to this update
    snapshot: NonNegativeInt | None = None  # save what there is, as of this update
    partial: NonNegativeInt | None = None  # begin to save this update, and leave it so
    save_fails: bool | None = None  # say that a save failed; that of the next pause fails too
    model: bool | None = None  # write and register a model file
    silence: Duration | None = None
    line: str | None = None  # these very characters, whatever they are
    start_check: SimCheck | None = None  # report it, and end where it is refused
    refuse: Label | None = None
    crash: Crash | None = None
    rollouts: PositiveInt | None = None  # with steps, step: score so many before each update
    measured: Measured = {}  # with steps, step, validation; loss is made up where absent
    seconds: NonNegativeFloat = 0.0

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        actions = sorted(self.model_fields_set - _WITH_ACTIONS)
        if len(actions) != 1:
            raise ValueError(f"an instruction states exactly one action, this one {actions}")
        return self


class SimEngine(Part):
    """A scripted trainer without a model, for tests and for trying the product out."""

    sim: tuple[SimStep, ...]


class CommandEngine(Part):
    """Any program that appends report lines to its spool."""

    command: Annotated[tuple[Label, ...], Field(min_length=1)]
    directory: str | None = None  # where it starts; the server's own folder where absent

    @model_validator(mode="after")
    def _holds_no_secret(self) -> Self:
        place = secret_argument(self.command)
        if place is not None:
            raise ValueError(
                f"part {place} of the command is a secret, which would be kept for ever; hand it "
                "to the program in its environment or in a file"
            )
        return self


def _engine_kind(value: Any) -> str | None:
    """Which member of the engine union ``value`` is meant to be; None when it is none of them."""
    if isinstance(value, str):
        return "named"
    keys = set(value) if isinstance(value, dict) else set(type(value).model_fields)
    return next((kind for kind in ("sim", "command") if kind in keys), None)


Engine = Annotated[
    Annotated[Literal["trl", "sim"], Tag("named")]
    | Annotated[SimEngine, Tag("sim")]
    | Annotated[CommandEngine, Tag("command")],
    Discriminator(_engine_kind),
]


class Execution(Part):
    """How the run is carried out; nothing here changes which rows train at which step."""

    devices: PositiveInt = 1
    micro_batch_sequences: PositiveInt | None = None
    save_every: PositiveInt = 20  # updates between two snapshots; the last update has one too
    resumable_save_every: PositiveInt | None = None  # updates until one has training state as well
    keep_weights: PositiveInt | None = None  # newest snapshots whose weights are kept; all of them
    keep_training_state: PositiveInt = 2  # newest snapshots that can still be resumed from
    max_attempts: PositiveInt = 3  # jobs, until a failure of the infrastructure fails the run
    startup_timeout: Duration = 600.0  # seconds without any progress after the start
    lease: Duration = 60.0  # seconds without any sign of life until an attempt is lost
    stop_grace: Duration = 30.0  # seconds between asking a worker to stop and killing it
    start_checks: bool = True  # look whether training can go well before the first update

    @model_validator(mode="after")
    def _saves_fit(self) -> Self:
        every, resumable = self.save_every, self.resumable_save_every
        if resumable is not None and resumable % every:
            raise ValueError(
                f"resumableSaveEvery is {resumable}, which is no multiple of saveEvery ({every})"
            )
        return self


class Plan(Part):
    """One fine-tuning run."""

    kind: Literal["run"] = "run"
    project: Annotated[str, Field(min_length=1, max_length=200)] = "default"
    name: Label | None = None  # a label, never a key
    description: Label | None = None
    method: Literal["SFT", "GRPO"] = "SFT"
    base_model: Label
    dataset: Label
    validation: Validation | None = None
    config: Config = Config()
    engine: Engine = "trl"
    execution: Execution = Execution()

    @model_validator(mode="after")
    def _engine_can(self) -> Self:
        if self.engine == "trl" and self.method != "SFT":
            raise ValueError("method GRPO needs a command engine; engine trl trains SFT")
        return self

    @model_validator(mode="after")
    def _penalty_is_of_reinforcement(self) -> Self:
        if self.config.kl_beta is not None and self.method != "GRPO":
            raise ValueError("config.klBeta is of runs with method GRPO")
        return self

    @model_validator(mode="after")
    def _divides(self) -> Self:
        micro = self.execution.micro_batch_sequences
        total = self.config.sequences_per_update
        part = self.execution.devices * (micro or 1)
        if total % part:
            raise ValueError(
                f"config.sequencesPerUpdate is {total}, which execution.devices times "
                f"execution.microBatchSequences ({part}) does not divide"
            )
        return self


def parse(document: Any) -> Plan:
    """The plan that ``document`` says.

    Raises:
        PlanError: with one sentence for each field that is wrong.
    """
    if not isinstance(document, dict):
        raise PlanError([f"a plan is a mapping of fields, this is {document!r:.60}"])
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        faults = [_fault(dict(each)) for each in error.errors(include_url=False)]
        raise PlanError(list(dict.fromkeys(faults))) from None


def resolve(plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """The plan with every default filled in, and the dotted names that it stated itself."""
    whole = plan.model_dump(mode="json", by_alias=True)
    config, execution = whole["config"], whole["execution"]
    if config["epochs"] is None and config["maxSteps"] is None:
        config["epochs"] = 1.0
    if execution["microBatchSequences"] is None:
        share = config["sequencesPerUpdate"] // execution["devices"]
        execution["microBatchSequences"] = max(n for n in (1, 2, 3, 4) if share % n == 0)
    if plan.validation is not None and plan.validation.dataset is None:
        whole["validation"]["fraction"] = plan.validation.fraction or 0.1
    if plan.engine == "sim":
        whole["engine"] = {"sim": _default_script(plan)}
    elif isinstance(plan.engine, SimEngine):
        whole["engine"] = plan.engine.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return whole, sorted(_stated(plan))


def is_field(name: str) -> bool:
    """Whether a dotted wire name is that of a field of a plan."""
    part: Any = Plan
    for each in name.split("."):
        if not isinstance(part, type) or not issubclass(part, BaseModel):
            return part is not None  # below a union: its members check what is in them
        field = next((f for f in part.model_fields.values() if f.alias == each), None)
        if field is None:
            return False
        kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind]
        models = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        part = models[0] if len(models) == 1 else field.annotation
    return True


def _default_script(plan: Plan) -> list[dict[str, Any]]:
    """A short run without surprises, as long as the plan's ``maxSteps``."""
    total = plan.config.max_steps or 10
    return [
        {"stage": "reading rows", "completed": 0, "total": 100},
        {"stage": "reading rows", "completed": 100, "total": 100},
        {"training": total},
        {"steps": total, "seconds": 0.02},
        {"validation": total},
        {"model": True},
    ]


def _stated(part: BaseModel, prefix: str = "") -> list[str]:
    """Dotted wire names of the fields that were given, down to the leaves."""
    names: list[str] = []
    for name in part.model_fields_set:
        value = getattr(part, name)
        path = prefix + to_camel(name)
        names += _stated(value, f"{path}.") if isinstance(value, BaseModel) else [path]
    return names


def _fault(error: dict[str, Any]) -> str:
    """One sentence that names the field and what is wrong with it."""
    path = [str(part) for part in error["loc"]]
    if len(path) > 1 and path[0] == "engine" and path[1] in ("named", "sim", "command"):
        del path[1]  # the tag of the union is ours, not the user's
    where = ".".join(path)
    if error["type"] == "extra_forbidden":
        return f"{where} is not a field of a plan"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "union_tag_not_found":
        return f"{where} is none of: trl, sim, a mapping with command, a mapping with sim"
    if error["type"] == "literal_error":
        return f"{where} is {error['input']!r:.60}, expected {error['ctx']['expected']}"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where} is {error['input']!r:.60}: {message[:1].lower()}{message[1:]}"
