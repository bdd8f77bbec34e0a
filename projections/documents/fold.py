"""What each event adds to the state of a run's document.

The state is a mapping that JSON can hold; ``record`` publishes it. Folding reads no clock. Its one
question is for a restore: then the earlier events of the run are read again, to drop what no longer
counts. A state may be changed in place, so the caller gives it up.
"""

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    DataFitMeasured,
    DatasetRead,
    EngineConfigured,
    Event,
    HparamsResolved,
    JobStarted,
    LineRejected,
    MemoryMeasured,
    ModelRegistered,
    PhaseChanged,
    Recorded,
    Restored,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSubmitted,
    StageReported,
    StepReported,
    TrainingBegan,
    UnknownEvent,
    ValidationReported,
    attempt_of,
)
from projections import wire
from projections.documents import series, timing
from projections.errors import ProjectionError

REJECTIONS = 5  # sentences that an attempt keeps; all are counted

State = dict[str, Any]
Earlier = Callable[[], Iterable[Recorded]]  # events of the run before the one that is folded


def fold(state: State | None, recorded: Recorded, earlier: Earlier) -> State:
    """The state of a run's document after one more event of the run.

    Raises:
        ProjectionError: the first event is no submission.
    """
    position, event = recorded
    if state is None:
        if not isinstance(event, RunSubmitted):
            raise ProjectionError(f"{event.originator_id} begins with {type(event).__name__}")
        state = _begin(event, position)
    state["position"] = position
    if not isinstance(event, UnknownEvent):
        state["now"] = max(state["now"], timing.millis(event.at))
    if isinstance(event, Restored):
        _restore(state, event.step, earlier)
    else:
        _apply(event, state)
    return state


def _begin(event: RunSubmitted, position: int) -> State:
    now = timing.millis(event.at)
    state: State = {
        "runId": event.run_id,
        "submissionId": event.submission_id,
        "plan": wire.plain(event.plan),
        "stated": list(event.stated),
        "submitted": now,
        "submittedPosition": position,
        "now": now,  # the newest moment that was reached: the last sign of life
        "ended": None,
        "phase": "SUBMITTED",
        "waitingFor": None,
        "stage": None,
        "visits": [],
        "failure": None,
        "model": None,
        "observedStep": 0,
        "totalSteps": event.plan["config"].get("maxSteps"),
        "restores": [],
        "series": series.empty(),
        "attempts": [],
        "memory": {},
        "dataFit": None,
        "datasetRows": None,
        "validationRows": None,
        "hyperparameters": None,
        "engineSettings": None,
    }
    timing.enter(state["visits"], "SUBMITTED", now)
    return state


def _restore(state: State, step: int, earlier: Earlier) -> None:
    """Go back to ``step``. What was spent and how long it took is never taken back."""
    state["restores"].append(step)
    state["observedStep"] = step
    if step < state["series"]["highest"]:
        state["series"] = series.current(state["restores"], earlier())


@singledispatch
def _apply(event: Event, state: State) -> None:
    """Change what ``event`` says. Kinds without a handler below are signs of life, no more."""


# -- the life of the run ---------------------------------------------------------------------------


@_apply.register
def _(event: PhaseChanged, state: State) -> None:
    if event.phase != state["phase"]:
        state["stage"] = None
    state["phase"] = event.phase
    state["waitingFor"] = event.waiting_for
    timing.enter(state["visits"], event.phase, state["now"])


def _end(state: State, phase: str) -> None:
    """The run is over: time stops, and nothing is under way any more."""
    timing.leave(state["visits"], state["now"])
    state.update(phase=phase, ended=state["now"], stage=None, waitingFor=None)


@_apply.register
def _(_: RunCompleted, state: State) -> None:
    _end(state, "COMPLETED")


@_apply.register
def _(_: RunCancelled, state: State) -> None:
    _end(state, "CANCELLED")


@_apply.register
def _(event: RunFailed, state: State) -> None:
    _end(state, "FAILED")
    state["failure"] = {
        "code": event.code,
        "class": event.end_class,
        "reason": event.reason,
        "advice": event.advice,
    }


# -- attempts --------------------------------------------------------------------------------------


def _attempt(state: State, number: int | None) -> dict[str, Any]:
    for attempt in reversed(state["attempts"]):
        if attempt["attempt"] == number:
            return attempt  # type: ignore[no-any-return]
    raise ProjectionError(f"run {state['runId']} never opened its attempt {number}")


def _reporting(event: Event, state: State) -> dict[str, Any]:
    """The attempt that said ``event``."""
    return _attempt(state, attempt_of(event.originator_id))


@_apply.register
def _(event: AttemptOpened, state: State) -> None:
    trained = timing.spent(state["visits"], "part", state["now"]).get("training", 0)
    attempt = {
        "attempt": event.attempt,
        "devices": list(event.devices),
        "launcher": event.launcher,
        "host": None,
        "opened": state["now"],
        "trainedBefore": trained,  # milliseconds of training before it, in the whole run
        "closed": None,
        "released": None,
        "reason": None,
        "endClass": None,
        "exitCode": None,
        "signal": None,
        "firstStep": None,
        "lastStep": None,
        "highestStep": None,
        "rejectedLines": 0,
        "rejections": [],
    }
    state["attempts"].append(attempt)


@_apply.register
def _(event: JobStarted, state: State) -> None:
    _attempt(state, event.attempt)["host"] = event.host


@_apply.register
def _(event: AttemptClosed, state: State) -> None:
    attempt = _attempt(state, event.attempt)
    alive = max(timing.millis(event.last_sign_at), attempt["opened"])
    attempt.update(
        closed=state["now"],
        released=min(alive, state["now"]),
        reason=event.reason,
        endClass=event.end_class,
        exitCode=event.exit_code,
        signal=event.signal,
    )


@_apply.register
def _(event: LineRejected, state: State) -> None:
    attempt = _reporting(event, state)
    attempt["rejectedLines"] += 1
    if len(attempt["rejections"]) < REJECTIONS:
        attempt["rejections"].append(event.reason)


# -- what an attempt reported ----------------------------------------------------------------------


@_apply.register
def _(event: StepReported, state: State) -> None:
    attempt = _reporting(event, state)
    step = event.step
    if attempt["firstStep"] is None:
        attempt["firstStep"] = attempt["highestStep"] = step
    attempt["lastStep"] = step
    attempt["highestStep"] = max(attempt["highestStep"], step)
    state["observedStep"] = step
    series.add(state["series"], event)


@_apply.register
def _(event: ValidationReported, state: State) -> None:
    series.add(state["series"], event)


@_apply.register
def _(event: TrainingBegan, state: State) -> None:
    state["stage"] = None
    if event.total_steps is not None:
        state["totalSteps"] = event.total_steps


@_apply.register
def _(event: StageReported, state: State) -> None:
    state["stage"] = {"name": event.stage, "completed": event.completed, "total": event.total}


@_apply.register
def _(event: ModelRegistered, state: State) -> None:
    state["model"] = {
        "path": event.path,
        "sha256": event.sha256,
        "step": event.step,
        "sizeBytes": event.size_bytes,
    }


@_apply.register
def _(event: HparamsResolved, state: State) -> None:
    state["hyperparameters"] = wire.plain(event.values)


@_apply.register
def _(event: EngineConfigured, state: State) -> None:
    state["engineSettings"] = {
        "requested": wire.plain(event.requested),
        "resolved": wire.plain(event.resolved),
    }


@_apply.register
def _(event: DatasetRead, state: State) -> None:
    state["datasetRows"] = event.rows
    state["validationRows"] = event.validation_rows


@_apply.register
def _(event: DataFitMeasured, state: State) -> None:
    state["dataFit"] = {
        "rows": event.rows,
        "reached": event.reached,
        "lostEnd": event.lost_end,
        "dropped": event.dropped,
        "paddingShare": event.padding_share,
    }


@_apply.register
def _(event: MemoryMeasured, state: State) -> None:
    peaks = state["memory"]
    for device, peak in event.peak_bytes.items():
        peaks[device] = max(peaks.get(device, 0), peak)
