"""Histories of other trackers become runs that have ended: all their events in one transaction.

What a history does not say stays unknown: a run that was imported has no devices, and its times
are those that the history has.
"""

import math
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from ledger.errors import TokenReusedError
from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    Event,
    HparamsResolved,
    PhaseChanged,
    ReportsClosed,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    StepReported,
    SubmissionAccepted,
    TrainingBegan,
    ValidationReported,
    WorkerCompleted,
    attempt_stream,
    run_stream,
    submission_stream,
)
from ledger.histories import History, ImportedStep
from ledger.ledger import Ledger, Submission, check_token
from ledger.plan import Config, Execution
from ledger.run import Stamp

LAUNCHER = "imported"  # of the only attempt: nothing was launched
PART = "importedPart"  # why a run failed whose history ends before its last update
EventT = TypeVar("EventT", bound=Event)


class Imported(NamedTuple):
    """What an import came to."""

    submission: Submission
    token: str  # that made the run
    steps: int
    validations: int


def take(ledger: Ledger, history: History, *, token: str | None = None, principal: str) -> Imported:
    """Store a history as a run, in one transaction; the same one again is the same run.

    Without a token of its own, the content of the file is the token.

    Raises:
        TokenReusedError: the token made a run from something else.
    """
    token = f"import-{history.source.sha256}" if token is None else token
    check_token(token)
    steps = sum(isinstance(row, ImportedStep) for row in history.rows)
    counts = (token, steps, len(history.rows) - steps)
    with ledger.lock:
        known = next(iter(ledger.stream(submission_stream(token))), None)
        if known is not None:
            run_id = _known(known, history, token)
            return Imported(Submission(run_id, created=False, position=ledger.position()), *counts)
        run_id = secrets.token_hex(8)
        ledger.append(
            lambda stamp: _Teller(run_id, token, stamp).events(history), principal=principal
        )
        return Imported(Submission(run_id, created=True, position=ledger.position()), *counts)


def _known(event: Event, history: History, token: str) -> str:
    """The run that the token made of this very history."""
    if not isinstance(event, SubmissionAccepted):
        raise TokenReusedError(
            f"submission {token} asked for a branch, not for an import", "use a new token"
        )
    if event.plan_sha256 != history.digest:
        raise TokenReusedError(
            f"{history.source.file} was imported as run {event.created_run} with other options, "
            "or its content was read in another way",
            "with --submission-id TOKEN it becomes a second run",
        )
    return event.created_run


class _Teller:
    """Tells the events of one imported run, each with the version that follows in its stream."""

    def __init__(self, run_id: str, token: str, stamp: Stamp) -> None:
        self._run, self._token, self._stamp = run_id, token, stamp
        self._versions: dict[str, int] = {}

    def events(self, history: History) -> list[Event]:
        """All of them, in the order of the ledger."""
        began, ended = _bounds(history)
        return [*self._begin(history, began), *self._rows(history), *self._end(history, ended)]

    def _begin(self, history: History, at: datetime | None) -> Iterator[Event]:
        source, life, attempt = history.source, run_stream(self._run), self._attempt
        plan, stated = document(history)
        yield self._tell(
            SubmissionAccepted,
            submission_stream(self._token),
            None,
            created_run=self._run,
            plan_sha256=history.digest,
        )
        yield self._tell(
            RunSubmitted, life, at, submission_id=self._token, plan=plan, stated=stated
        )
        yield self._tell(
            AttemptOpened, life, at, attempt=1, devices=(), launcher=LAUNCHER, token_sha256=""
        )
        yield self._tell(PhaseChanged, life, at, phase="TRAINING")
        yield self._tell(TrainingBegan, attempt, at, total_steps=source.total_steps)
        if source.hyperparameters is not None:
            yield self._tell(HparamsResolved, attempt, at, values=source.hyperparameters)

    def _rows(self, history: History) -> Iterator[Event]:
        """One event of each row, unchecked: a report is checked as strictly as its event."""
        most, stream = history.source.max_grad_norm, self._attempt
        for row in history.rows:
            at = None if row.at is None else datetime.fromtimestamp(row.at, UTC)
            facts = self._place(stream, at) | {"step": row.step, "measured": row.measured}
            if isinstance(row, ImportedStep):
                facts["measured"] = _clipped(row.measured, most)
                facts |= {"step_seconds": row.step_seconds, "reward_terms": row.reward_terms}
                yield StepReported.model_construct(**facts)
            else:
                yield ValidationReported.model_construct(**facts, dataset=row.dataset)

    def _end(self, history: History, at: datetime | None) -> Iterator[Event]:
        life, ending = run_stream(self._run), _ending(history)
        if history.source.is_complete:
            yield self._tell(WorkerCompleted, self._attempt, at)
        lines = self._versions[self._attempt]
        yield self._tell(ReportsClosed, self._attempt, None)
        yield self._tell(
            AttemptClosed,
            life,
            at,
            attempt=1,
            lines=lines,
            step=history.observed_step,
            last_sign_at=at or self._stamp.now,
            outcome="completed" if history.source.is_complete else "failed",
            **ending,
        )
        if history.source.is_complete:
            yield self._tell(RunCompleted, life, at)
        else:
            yield self._tell(RunFailed, life, at, **ending)

    @property
    def _attempt(self) -> str:
        return attempt_stream(self._run, 1)

    def _tell(self, kind: type[EventT], stream: str, at: datetime | None, **facts: Any) -> EventT:
        return kind.model_validate(self._place(stream, at) | facts)

    def _place(self, stream: str, at: datetime | None) -> dict[str, Any]:
        """What every event says; the next one of a stream has the next version."""
        version = self._versions[stream] = self._versions.get(stream, 0) + 1
        return {
            "originator_id": stream,
            "originator_version": version,
            "timestamp": self._stamp.now,
            "reported_at": at,
            "principal": self._stamp.principal,
        }


def _bounds(history: History) -> tuple[datetime | None, datetime | None]:
    """When the history begins and ends, as far as it says so."""
    if not history.is_timed:
        return None, None
    times = [row.at for row in (history.source, *history.rows) if row.at is not None]
    return datetime.fromtimestamp(min(times), UTC), datetime.fromtimestamp(max(times), UTC)


def _ending(history: History) -> dict[str, str]:
    """How the run ended, as far as the history says."""
    if history.source.is_complete:
        return {
            "code": "completed",
            "end_class": "completed",
            "reason": "the imported history is whole",
            "advice": "",
        }
    total = history.source.total_steps
    of = f" of {total:,}" if total is not None else ""
    return {
        "code": PART,
        "end_class": "unknown",
        "reason": f"the imported history ends at step {history.observed_step:,}{of}",
        "advice": "Import what the tracker has of the whole run; this part stays as it is.",
    }


def _clipped(measured: dict[str, float], most: float | None) -> dict[str, float]:
    """The numbers with what clipping multiplied the gradient by, where that follows from them."""
    norm = measured.get("grad_norm")
    if most is None or norm is None or "grad_clip_factor" in measured or not math.isfinite(norm):
        return measured
    return measured | {"grad_clip_factor": min(1.0, most / norm) if norm > 0 else 1.0}


def document(history: History) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A plan that says what is known of the run, and the names that the import stated."""
    source = history.source
    said = source.model_dump(by_alias=True)
    labels = ("project", "name", "description", "method", "baseModel", "dataset")
    names = ("source", "file", "sha256", "beside", "trainingSeconds")
    imported = {name: said[name] for name in names}
    config = _unknown(Config) | {"maxGradNorm": source.max_grad_norm}
    plan = {
        "kind": "run",
        **{name: said[name] for name in labels},
        "validation": None,
        "config": config,
        "engine": {"imported": imported | {"isTimed": history.is_timed}},
        "execution": _unknown(Execution),
    }
    stated = {name for name in labels if said[name] is not None}
    stated -= {name for name in ("project", "method") if name not in source.model_fields_set}
    stated |= {"config.maxGradNorm"} if source.max_grad_norm is not None else set()
    return plan, tuple(sorted(stated))


def _unknown(part: type[BaseModel]) -> dict[str, Any]:
    """Every field of a part of the plan, with nothing known of it."""
    return {
        to_camel(name): _unknown(kind)
        if isinstance(kind := field.annotation, type) and issubclass(kind, BaseModel)
        else None
        for name, field in part.model_fields.items()
    }
