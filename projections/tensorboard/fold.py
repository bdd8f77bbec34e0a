"""What each event of a run adds to its event files, and what the next ones depend on."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import singledispatch
from typing import Any, NamedTuple

from ledger.events import (
    AttemptClosed,
    Event,
    HparamsResolved,
    Outcome,
    Restored,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    StepReported,
    TrainingBegan,
    ValidationReported,
    attempt_of,
)
from projections import wire

ENGINE_STEP = "engine_step"  # among what was measured: the place on the x axis, and no curve
TRAIN = "train"
VALIDATION = "eval"  # as the curves of transformers are called, and so of most trainers
REWARD_TERMS = "rewardTerms"
OWN_PREFIX = "eval_"  # that transformers puts before what it measured in a validation
FACTS = ("name", "method", "baseModel", "dataset")  # of the plan, beside its configuration
LARGEST_STEP = 2**53  # exact as a number

Value = bool | float | str


class SessionStart(NamedTuple):
    """Everything from ``step`` on that came before is to be forgotten."""

    at: datetime
    step: int


class Scalars(NamedTuple):
    """A point of each curve in ``values``."""

    at: datetime
    step: int
    values: dict[str, float]


class Hyperparameters(NamedTuple):
    """A row of the HParams dashboard."""

    at: datetime
    values: dict[str, Value]


class SessionEnd(NamedTuple):
    """How that row ended."""

    at: datetime
    outcome: Outcome


Summary = SessionStart | Scalars | Hyperparameters | SessionEnd


@dataclass(frozen=True)
class State:
    """What the summaries of later events depend on."""

    attempt: int | None = None  # the one that is asked for; None: the whole run
    offset: int = 0  # steps that the engine counts beyond those of the run
    untold: Mapping[str, Any] | None = None  # the plan, while no hyperparameters were told


Told = tuple[State, list[Summary]]


def advance(state: State, event: Event) -> Told:
    """The state after an event of the run, and what the event adds to the files."""
    if state.attempt not in (None, attempt_of(event.originator_id)) and _is_report(event):
        return state, []
    return _advance(event, state)


def _is_report(event: Event) -> bool:
    return attempt_of(event.originator_id) is not None


@singledispatch
def _advance(_event: Event, state: State) -> Told:
    """Kinds without a handler below add nothing."""
    return state, []


@_advance.register
def _(event: RunSubmitted, state: State) -> Told:
    # Readers take the first of these marks for the beginning, and purge only at those after it.
    return replace(state, untold=event.plan), [SessionStart(event.at, 0)]


@_advance.register
def _(event: HparamsResolved, state: State) -> Told:
    return _with_hyperparameters(state, event.at, event.values)


@_advance.register
def _(event: TrainingBegan, state: State) -> Told:
    return _with_hyperparameters(state, event.at)


@_advance.register
def _(event: StepReported, state: State) -> Told:
    state, told = _with_hyperparameters(state, event.at)
    counted = _engine_step(event.measured)
    if counted is not None:
        state = replace(state, offset=counted - event.step)
    values = dict(_curves(event))
    return state, [*told, *_scalars(state, event.at, event.step, values)]


@_advance.register
def _(event: ValidationReported, state: State) -> Told:
    state, told = _with_hyperparameters(state, event.at)
    values = dict(_validation_curves(event))
    return state, [*told, *_scalars(state, event.at, event.step, values)]


@_advance.register
def _(event: Restored, state: State) -> Told:
    if state.attempt is not None and not _is_report(event):
        return state, []  # where an attempt begins; what others reported is not told
    return state, [SessionStart(event.at, state.offset + event.step + 1)]


@_advance.register
def _(event: AttemptClosed, state: State) -> Told:
    return _ended(event, state, event.outcome) if event.attempt == state.attempt else (state, [])


@_advance.register
def _(event: RunCompleted, state: State) -> Told:
    return _run_ended(event, state, "completed")


@_advance.register
def _(event: RunFailed, state: State) -> Told:
    return _run_ended(event, state, "failed")


@_advance.register
def _(event: RunCancelled, state: State) -> Told:
    return _run_ended(event, state, "cancelled")


def _run_ended(event: Event, state: State, outcome: Outcome) -> Told:
    return _ended(event, state, outcome) if state.attempt is None else (state, [])


def _ended(event: Event, state: State, outcome: Outcome) -> Told:
    state, told = _with_hyperparameters(state, event.at)
    return state, [*told, SessionEnd(event.at, outcome)]


# -- curves ----------------------------------------------------------------------------------------


def _scalars(state: State, at: datetime, step: int, values: dict[str, float]) -> list[Summary]:
    """The points of one event, where the engine's own count has them."""
    return [Scalars(at, state.offset + step, values)] if values else []


def _engine_step(measured: Mapping[str, float]) -> int | None:
    """What the engine counts; None where it says nothing, or nothing that is a count."""
    counted = measured.get(ENGINE_STEP, math.nan)
    return int(counted) if 0 <= counted <= LARGEST_STEP and counted.is_integer() else None


def _curves(event: StepReported) -> Iterator[tuple[str, float]]:
    """What an update adds to which curves."""
    if event.step_seconds is not None:
        yield f"{TRAIN}/step_seconds", event.step_seconds
    for name, value in event.measured.items():
        if name != ENGINE_STEP:
            yield _within(TRAIN, name), value
    for name, value in (event.reward_terms or {}).items():
        yield f"{REWARD_TERMS}/{name}", value


def _validation_curves(event: ValidationReported) -> Iterator[tuple[str, float]]:
    """What a validation adds to which curves; each data set has its own."""
    group = VALIDATION if event.dataset is None else f"{VALIDATION}/{event.dataset}"
    for name, value in event.measured.items():
        short = name.removeprefix(OWN_PREFIX)
        if name != ENGINE_STEP:
            is_taken = short != name and short in event.measured
            yield _within(group, name if is_taken else short), value


def _within(group: str, name: str) -> str:
    """The name of a curve; an engine that groups its numbers the same way is taken at its word."""
    return name if name.startswith(f"{group}/") else f"{group}/{name}"


# -- hyperparameters -------------------------------------------------------------------------------


def _with_hyperparameters(
    state: State, at: datetime, resolved: Mapping[str, Any] | None = None
) -> Told:
    """The hyperparameters, once: readers keep the first that they find, so none is told too early.

    They are what the worker resolved, or else the configuration of the plan, told with the first
    thing that a worker says after the time for resolving is over.
    """
    if state.untold is None:
        return state, []
    plan = state.untold
    chosen = plan["config"] if resolved is None else resolved
    facts = {name: plan[name] for name in FACTS}
    values = dict(_flat(facts)) | dict(_flat(chosen))
    return replace(state, untold=None), [Hyperparameters(at, values)]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Every value under its dotted name; those that are absent are left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", _value(value)


def _value(value: Any) -> Value:
    """What the dashboard can show: a truth, a finite number, or a text."""
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        said = wire.plain(value)  # a number that is not finite, or too large for one, as text
        return said if isinstance(said, str) else float(said)
    return json.dumps(wire.plain(value), ensure_ascii=False)
