"""What an attempt or a preparation has reported so far, and what its next line adds.

One line of the spool is one event, and the number of the line is its version. A line that is no
report, or that contradicts an earlier one, is kept as rejected: nothing that a worker said is lost,
and nothing wrong counts.
"""

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ledger import cleaning, masking, reports
from ledger.events import (
    DataFitMeasured,
    DatasetRead,
    EngineConfigured,
    Event,
    HparamsResolved,
    LineRejected,
    MemoryMeasured,
    ModelRegistered,
    ReportsClosed,
    RestoreChecked,
    Restored,
    RolloutsScored,
    SaveFailed,
    SnapshotReported,
    StageReported,
    StartChecked,
    StepReported,
    TrainingBegan,
    ValidationReported,
    WorkerCompleted,
    WorkerFailed,
    WorkerRefused,
    job_of,
)
from ledger.reports import AnyReport, ReportError
from ledger.run import Stamp

EVENT_OF: dict[str, type[Event]] = {
    "training": TrainingBegan,
    "stage": StageReported,
    "step": StepReported,
    "validation": ValidationReported,
    "rollouts": RolloutsScored,
    "restore": Restored,
    "restoreCheck": RestoreChecked,
    "snapshot": SnapshotReported,
    "saveFailed": SaveFailed,
    "model": ModelRegistered,
    "hparams": HparamsResolved,
    "engineConfig": EngineConfigured,
    "dataset": DatasetRead,
    "dataFit": DataFitMeasured,
    "memory": MemoryMeasured,
    "startCheck": StartChecked,
    "refused": WorkerRefused,
    "failed": WorkerFailed,
    "completed": WorkerCompleted,
}
OF_PREPARATIONS = frozenset({"stage", "dataset", "dataFit", "refused", "failed", "completed"})
Said = Literal["completed", "refused", "failed"]


class JobHead(NamedTuple):
    """The end of a job's stream: as much of it as the next line needs."""

    stream: str
    lines: int = 0  # taken so far; the version of the newest event
    step: int = 0  # newest update
    restored: int = 0  # what the newest restore went back to; its own step is not said again
    fields: frozenset[str] = frozenset()  # said of the newest update
    validation_step: int = -1  # newest validation
    validation_fields: frozenset[tuple[str | None, str]] = frozenset()  # (dataset, name) said of it
    has_trained: bool = False
    closed: bool = False
    said: Said | None = None  # how the worker ended, in its own words
    word: str = ""  # its refusal, or the cause of its failure
    last_at: datetime | None = None  # when its newest event happened


def take(head: JobHead, line: str, stamp: Stamp) -> Event:
    """The event that ``line`` is, as the next of the stream."""
    try:
        report = reports.parse(line)
        _check_kind(head, report)
        _check(head, report)
    except ReportError as error:
        return _event(LineRejected, head, stamp, {"reason": str(error), "text": _storable(line)})
    if report.at is not None:
        stamp = stamp._replace(reported_at=datetime.fromtimestamp(report.at, UTC))
    facts = report.model_dump(exclude={"kind", "at"}, exclude_none=True)
    return _event(EVENT_OF[report.kind], head, stamp, facts)


def close(head: JobHead, stamp: Stamp) -> Event:
    """The event that fences the job."""
    return _event(ReportsClosed, head, stamp, {})


def says_the_same(event: Event, line: str) -> bool:
    """Whether ``event`` is what was made of ``line`` when it came first."""
    if isinstance(event, LineRejected):
        return event.text == _storable(line)
    empty = JobHead(event.originator_id, event.originator_version - 1)
    stamp = Stamp(event.timestamp, event.principal)
    again = cleaning.cleaned(take(empty, line, stamp))
    return type(again) is type(event) and again.model_dump_json() == event.model_dump_json()


def _event(kind: type[Event], head: JobHead, stamp: Stamp, facts: dict[str, Any]) -> Event:
    return kind.model_validate(
        {
            "originator_id": head.stream,
            "originator_version": head.lines + 1,
            "timestamp": stamp.now,
            "reported_at": stamp.reported_at,
            "principal": stamp.principal,
            **facts,
        }
    )


def _check_kind(head: JobHead, report: AnyReport) -> None:
    """Refuse what only a training can say.

    Raises:
        ReportError: a preparation says it.
    """
    job = job_of(head.stream)
    if job is not None and job.kind == "preparation" and report.kind not in OF_PREPARATIONS:
        raise ReportError(f"a preparation says nothing of kind {report.kind}")


def _check(head: JobHead, report: AnyReport) -> None:
    """Refuse what contradicts an earlier line.

    Raises:
        ReportError: with the two facts that do not fit.
    """
    match report:
        case reports.StepReport():
            _check_is_later(head, report.step)
            _check_rises(head.step, report.step, "step")
            if report.step == head.step and (twice := head.fields & _names(report)):
                raise ReportError(
                    f"step {report.step} was reported before with {', '.join(sorted(twice))}"
                )
        case reports.ValidationReport():
            if report.step < head.validation_step:
                _check_rises(head.validation_step, report.step, "validation of step")
            said = {(report.dataset, name) for name in report.measured}
            twice_said = head.validation_fields & said
            if report.step == head.validation_step and twice_said:
                names = ", ".join(sorted(name for _, name in twice_said))
                raise ReportError(f"step {report.step} was validated before with {names}")
        case reports.RolloutsReport():
            _check_is_later(head, report.step)
        case reports.RestoreReport() if report.step > head.step:
            raise ReportError(f"restored to step {report.step}, but the newest is {head.step}")


def _check_is_later(head: JobHead, step: int) -> None:
    if step <= head.restored:
        raise ReportError(f"step {step} was restored, the next one is later")


def _check_rises(newest: int, step: int, what: str) -> None:
    if step < newest:
        raise ReportError(
            f"{what} {step} came after {newest}; going back needs a line of kind restore"
        )


def _names(report: reports.StepReport) -> frozenset[str]:
    """Every name of a number that the report says, reward terms apart from measured ones."""
    terms = {f"rewardTerms.{name}" for name in report.reward_terms or ()}
    return frozenset(report.measured) | terms


def evolve(head: JobHead, event: Event) -> JobHead:
    """The head after ``event``."""
    changes: dict[str, Any] = {"lines": event.originator_version, "last_at": event.at}
    match event:
        case StepReported():
            names = frozenset(event.measured) | {
                f"rewardTerms.{n}" for n in event.reward_terms or ()
            }
            same = event.step == head.step
            changes |= {"step": event.step, "fields": head.fields | names if same else names}
            changes["has_trained"] = True
        case ValidationReported():
            said = frozenset((event.dataset, name) for name in event.measured)
            same = event.step == head.validation_step
            changes["validation_step"] = event.step
            changes["validation_fields"] = head.validation_fields | said if same else said
        case Restored():
            changes |= {"step": event.step, "restored": event.step, "fields": frozenset()}
            changes |= {"validation_step": -1, "validation_fields": frozenset()}
        case TrainingBegan():
            changes["has_trained"] = True
        case ReportsClosed():
            changes = {"closed": True}  # it is no line, and no sign of life
        case _:
            changes |= _last_words(event)
    return head._replace(**changes)


def _last_words(event: Event) -> dict[str, Any]:
    """How the worker says that it ended, if ``event`` says so."""
    match event:
        case WorkerCompleted():
            return {"said": "completed"}
        case WorkerRefused():
            return {"said": "refused", "word": event.reason}
        case WorkerFailed():
            return {"said": "failed", "word": event.cause}
    return {}


def _storable(line: str) -> str:
    """The line as text that every database takes: cut to size, half characters spelled out.

    Secrets are masked here already, since the line is compared when it is sent again.
    """
    text = line[: reports.LINE_BYTES].encode("utf-8", "backslashreplace").decode()
    return masking.line(text)
