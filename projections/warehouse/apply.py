"""What each event adds to the warehouse. Truncation is a view over these rows, never a delete."""

from collections.abc import Iterator
from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

import orjson

from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    Event,
    PhaseChanged,
    Recorded,
    Restored,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    StepReported,
    ValidationReported,
    attempt_of,
)
from projections import wire

CORE = (
    "loss",
    "grad_norm",
    "grad_clip_factor",
    "adapter_norm",
    "update_ratio",
    "learning_rate",
    "epoch",
    "num_tokens",
)  # numbers with a column of their own; the order of the table
_CORE = frozenset(CORE)

_attempt_of = lru_cache(maxsize=1024)(attempt_of)  # events come in long stretches of one stream


class Row(NamedTuple):
    """One row for ``table``, its values in the order of the columns."""

    table: str
    values: tuple[Any, ...]


def rows(recorded: Recorded) -> Iterator[Row]:
    """Rows that an event adds. Kinds without a handler below say nothing to the warehouse."""
    return _rows(recorded.event, recorded.position)


@singledispatch
def _rows(_event: Event, _position: int) -> Iterator[Row]:
    return iter(())


@_rows.register
def _(event: StepReported, position: int) -> Iterator[Row]:
    measured = event.measured
    extra = {name: value for name, value in measured.items() if name not in _CORE}
    yield Row(
        "metric",
        (
            position,
            event.run_id,
            _attempt_of(event.originator_id),
            event.step,
            event.at,
            event.step_seconds,
            *[measured.get(name) for name in CORE],
            extra,
            event.reward_terms,
        ),
    )


@_rows.register
def _(event: ValidationReported, position: int) -> Iterator[Row]:
    attempt = _attempt_of(event.originator_id)
    yield Row(
        "validation",
        (
            position,
            event.run_id,
            attempt,
            event.step,
            event.at,
            event.dataset,
            event.measured,
        ),
    )


@_rows.register
def _(event: Restored, position: int) -> Iterator[Row]:
    attempt = _attempt_of(event.originator_id)
    yield Row("restore", (position, event.run_id, attempt, event.at, event.step))


@_rows.register
def _(event: RunSubmitted, position: int) -> Iterator[Row]:
    plan = event.plan
    labels = [plan[name] for name in ("project", "name", "method", "baseModel", "dataset")]
    text = orjson.dumps(wire.plain(plan)).decode()
    yield Row("run", (position, event.run_id, event.at, *labels, text))
    yield _phase(event, position, "SUBMITTED")


@_rows.register
def _(event: PhaseChanged, position: int) -> Iterator[Row]:
    yield _phase(event, position, event.phase, event.waiting_for)


@_rows.register
def _(event: RunCompleted, position: int) -> Iterator[Row]:
    yield _phase(event, position, "COMPLETED")


@_rows.register
def _(event: RunCancelled, position: int) -> Iterator[Row]:
    yield _phase(event, position, "CANCELLED")


@_rows.register
def _(event: RunFailed, position: int) -> Iterator[Row]:
    yield _phase(event, position, "FAILED")
    facts = (event.code, event.end_class, event.reason)
    yield Row("failure", (position, event.run_id, event.at, *facts))


@_rows.register
def _(event: AttemptOpened, position: int) -> Iterator[Row]:
    facts = (event.attempt, event.at, list(event.devices), event.launcher)
    yield Row("attempt", (position, event.run_id, *facts))


@_rows.register
def _(event: AttemptClosed, position: int) -> Iterator[Row]:
    end = (event.end_class, event.reason, event.exit_code, event.signal)
    facts = (event.attempt, event.at, event.last_sign_at, *end)
    yield Row("attempt_end", (position, event.run_id, *facts))


def _phase(event: Event, position: int, phase: str, waiting_for: str | None = None) -> Row:
    return Row("phase", (position, event.run_id, event.at, phase, waiting_for))
