"""What each event adds to the warehouse. Truncation is a view over these rows, never a delete."""

from collections.abc import Iterator
from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

import orjson

from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    BranchCreated,
    BranchRefused,
    BranchRequested,
    Event,
    PhaseChanged,
    Recorded,
    Restored,
    RolloutsScored,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    SourceHeld,
    StepReported,
    ValidationReported,
    attempt_of,
)
from projections import wire
from projections.digest import config_sha256
from projections.warehouse import events
from projections.warehouse.clock import Tick

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


def rows(recorded: Recorded, tick: Tick) -> Iterator[Row]:
    """Rows that an event adds: an update to metric, any other to event and where it belongs."""
    position, event = recorded
    if isinstance(event, StepReported):
        yield _update(event, position, tick)
        return
    yield Row("event", events.columns(event, position, tick))
    yield from _rows(event, position, tick)


@singledispatch
def _rows(_event: Event, _position: int, _tick: Tick) -> Iterator[Row]:
    """Kinds without a handler below add nothing more."""
    return iter(())


def _update(event: StepReported, position: int, tick: Tick) -> Row:
    measured = event.measured
    extra = {name: value for name, value in measured.items() if name not in _CORE}
    return Row(
        "metric",
        (
            position,
            event.run_id,
            _attempt_of(event.originator_id),
            event.step,
            event.at,
            event.originator_version,
            event.principal,
            tick.reached,
            tick.spent,
            event.step_seconds,
            *[measured.get(name) for name in CORE],
            extra,
            event.reward_terms,
        ),
    )


@_rows.register
def _(event: ValidationReported, position: int, _: Tick) -> Iterator[Row]:
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
def _(event: RolloutsScored, position: int, _: Tick) -> Iterator[Row]:
    facts = (position, event.run_id, _attempt_of(event.originator_id), event.step, event.at)
    for place, each in enumerate(event.rollouts, start=1):
        texts = (_json(each.prompt), _json(each.completion))
        yield Row("rollout", (*facts, place, *texts, each.score, each.terms))


@_rows.register
def _(event: Restored, position: int, _: Tick) -> Iterator[Row]:
    attempt = event.attempt or _attempt_of(event.originator_id)
    facts = (attempt, event.at, event.step, event.snapshot_id)
    yield Row("restore", (position, event.run_id, *facts))


@_rows.register
def _(event: RunSubmitted, position: int, _: Tick) -> Iterator[Row]:
    plan = event.plan
    labels = [plan[name] for name in ("project", "name", "method", "baseModel", "dataset")]
    yield Row("run", (position, event.run_id, event.at, *labels, _json(plan)))
    yield _phase(event, position, "SUBMITTED")


@_rows.register
def _(event: PhaseChanged, position: int, _: Tick) -> Iterator[Row]:
    yield _phase(event, position, event.phase, event.waiting_for)


@_rows.register
def _(event: RunCompleted, position: int, _: Tick) -> Iterator[Row]:
    yield _phase(event, position, "COMPLETED")


@_rows.register
def _(event: RunCancelled, position: int, _: Tick) -> Iterator[Row]:
    yield _phase(event, position, "CANCELLED")


@_rows.register
def _(event: RunFailed, position: int, _: Tick) -> Iterator[Row]:
    yield _phase(event, position, "FAILED")
    facts = (event.code, event.end_class, event.reason)
    yield Row("failure", (position, event.run_id, event.at, *facts))


@_rows.register
def _(event: AttemptOpened, position: int, _: Tick) -> Iterator[Row]:
    facts = (event.attempt, event.at, list(event.devices), event.launcher)
    yield Row("attempt", (position, event.run_id, *facts))


@_rows.register
def _(event: AttemptClosed, position: int, tick: Tick) -> Iterator[Row]:
    assert tick.released is not None
    released = wire.EPOCH + tick.released * wire.MILLISECOND
    end = (event.end_class, event.reason, event.exit_code, event.signal)
    facts = (event.attempt, event.at, event.last_sign_at, released, *end)
    yield Row("attempt_end", (position, event.run_id, *facts))


def _json(value: Any) -> str:
    return orjson.dumps(wire.plain(value)).decode()


def _phase(event: Event, position: int, phase: str, waiting_for: str | None = None) -> Row:
    return Row("phase", (position, event.run_id, event.at, phase, waiting_for))


@_rows.register
def _(event: BranchRequested, position: int, _: Tick) -> Iterator[Row]:
    origin = event.origin
    source = (origin.parent, event.child, origin.snapshot_id, origin.step, origin.restore)
    labels = (event.config_name, event.description, config_sha256(event.plan))
    facts = (_token(event), event.at, *source, event.steps, *labels)
    yield Row("branch", (position, *facts))
    yield _branch_state(event, position, "requested")


@_rows.register
def _(event: SourceHeld, position: int, _: Tick) -> Iterator[Row]:
    yield _branch_state(event, position, "preparing")


@_rows.register
def _(event: BranchCreated, position: int, _: Tick) -> Iterator[Row]:
    yield _branch_state(event, position, "created")


@_rows.register
def _(event: BranchRefused, position: int, _: Tick) -> Iterator[Row]:
    yield _branch_state(event, position, "refused", event.reason, event.advice)


def _branch_state(
    event: Event, position: int, state: str, reason: str | None = None, advice: str | None = None
) -> Row:
    return Row("branch_state", (position, _token(event), event.at, state, reason, advice))


def _token(event: Event) -> str:
    """The submission token in whose stream ``event`` is."""
    return event.originator_id.partition("/")[2]
