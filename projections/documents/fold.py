"""What each event adds to the state of a run's document.

The state is a mapping that JSON can hold; ``record`` publishes it. Folding reads no clock. Its one
question is for a restore: then the earlier events of the run are read again, to drop what no longer
counts. A state may be changed in place, so the caller gives it up.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    CancelRequested,
    DataFitMeasured,
    DatasetRead,
    EngineConfigured,
    Event,
    HparamsResolved,
    JobStarted,
    LineRejected,
    MemoryMeasured,
    ModelRegistered,
    PauseFailed,
    PauseRequested,
    PhaseChanged,
    PreparationClosed,
    PreparationOpened,
    Recorded,
    RestoreChecked,
    Restored,
    RunAnnotated,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunSubmitted,
    SaveFailed,
    SnapshotDamaged,
    SnapshotOffered,
    SnapshotRejected,
    StageReported,
    StartChecked,
    StepReported,
    TrainingBegan,
    ValidationReported,
)
from projections import wire
from projections.documents import checks, cost, memory, preparations, series, throughput, timing
from projections.documents.lookback import Past, look_back
from projections.documents.state import (
    Attempt,
    State,
    attempt as opened,
    begin,
    find,
    reporter,
    reporting,
)
from projections.errors import ProjectionError

SENTENCES = 5  # of each kind that a job keeps; all are counted
STARTING = "starting the worker"  # the stage until it says one

Earlier = Callable[[list[int]], Past]  # of the run, before the event that makes these restores


def fold(state: State | None, recorded: Recorded, earlier: Earlier) -> State:
    """The state of a run's document after one more event of the run.

    Raises:
        ProjectionError: the first event is no submission.
    """
    position, event = recorded
    if state is None:
        if not isinstance(event, RunSubmitted):
            raise ProjectionError(f"{event.originator_id} begins with {type(event).__name__}")
        state = begin(event, position)
    state["position"] = position
    state["now"] = timing.reached(state["now"], event)
    job = reporting(state, event.originator_id)
    if job is not None and type(event) not in timing.TIMELESS:
        job["lastSign"] = state["now"]
    if isinstance(event, Restored):
        _restore(state, event, earlier)
    else:
        _apply(event, state)
    return state


def _restore(state: State, event: Restored, earlier: Earlier) -> None:
    """Go back. What was spent and how long it took is never taken back."""
    attempt = find(state, event.attempt or reporter(event.originator_id))
    state["restores"].append(event.step)
    state["observedStep"] = event.step
    state["before"] = None
    if event.step < state["highestStep"]:
        _drop(state, attempt, earlier)
    for each in state["attempts"]:
        cost.take_back(each, event.step)
    if event.attempt is None:
        cost.go_back(attempt["spent"], state["now"])
        attempt["pace"] = None
        if (attempt["writtenStep"] or 0) > event.step:
            attempt["writtenStep"] = None
    else:
        attempt["restoredFrom"] = {
            "snapshotId": event.snapshot_id,
            "step": event.step,
            "skipped": state["damaged"],
        }
        state["damaged"] = []


def _drop(state: State, attempt: Attempt, earlier: Earlier) -> None:
    """Drop what the newest restore took back, which made ``attempt`` go on from there."""
    left = look_back(state["restores"], earlier(state["restores"]))
    state["series"] = left.series
    for each in state["attempts"]:
        spent = left.spent[each["attempt"]]
        each["spent"].update(useful=spent["useful"], repeated=spent["repeated"])
        each["superseded"] = left.superseded.get(each["attempt"])
    if attempt["firstStep"] is None:
        state["before"] = left.before


@singledispatch
def _apply(event: Event, state: State) -> None:
    """Change what ``event`` says. Kinds without a handler below are signs of life, no more."""


# -- the life of the run ---------------------------------------------------------------------------


@_apply.register
def _(event: PhaseChanged, state: State) -> None:
    if event.phase != state["phase"] or event.phase == "PREPARING":
        state["stage"] = _first_stage(event)
    state["phase"] = event.phase
    state["waitingFor"] = event.waiting_for
    timing.enter(state["visits"], event.phase, state["now"])
    newest = state["attempts"][-1] if state["attempts"] else None
    if newest is not None and newest["closed"] is None:
        cost.enter(newest["spent"], event.phase, state["now"])


def _first_stage(event: PhaseChanged) -> dict[str, Any] | None:
    """The stage that a phase begins with: what is prepared, or waits to be, always has one."""
    if event.phase != "PREPARING":
        return None
    return _stage("waiting to be prepared" if event.waiting_for else STARTING)


def _stage(name: str, completed: int | None = None, total: int | None = None) -> dict[str, Any]:
    return {"name": name, "completed": completed, "total": total}


@_apply.register
def _(event: PauseRequested, state: State) -> None:
    requested = {"checkpoint": event.checkpoint, "requested": state["now"], "failed": None}
    state["pause"] = requested


@_apply.register
def _(event: PauseFailed, state: State) -> None:
    if state["pause"] is not None:
        state["pause"]["failed"] = event.reason


@_apply.register
def _(_: RunResumed | CancelRequested, state: State) -> None:
    state["pause"] = None


@_apply.register
def _(event: RunAnnotated, state: State) -> None:
    for name in ("name", "description"):
        said = getattr(event, name)
        if said is not None:
            state[name] = said or None
    labels = state["labels"] | event.labels
    state["labels"] = {name: said for name, said in labels.items() if said}


def _end(state: State, phase: str) -> None:
    """The run is over: time stops, and nothing is under way any more."""
    timing.leave(state["visits"], state["now"])
    state.update(phase=phase, ended=state["now"], stage=None, waitingFor=None, pause=None)


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


# -- preparations and attempts ---------------------------------------------------------------------


@_apply.register
def _(event: PreparationOpened, state: State) -> None:
    state["preparations"].append(preparations.opened(event, state["now"]))
    state["stage"] = _stage(STARTING)


@_apply.register
def _(event: PreparationClosed, state: State) -> None:
    (closed,) = [e for e in state["preparations"] if e["preparation"] == event.preparation]
    preparations.close(closed, event, state["now"])


@_apply.register
def _(event: AttemptOpened, state: State) -> None:
    state["attempts"].append(opened(event, state))


@_apply.register
def _(event: JobStarted, state: State) -> None:
    find(state, event.attempt).update(host=event.host, lastSign=state["now"])


@_apply.register
def _(event: AttemptClosed, state: State) -> None:
    attempt = find(state, event.attempt)
    alive = max(timing.millis(event.last_sign_at), attempt["lastSign"])
    attempt.update(
        closed=state["now"],
        released=min(alive, state["now"]),
        outcome=event.outcome,
        code=event.code or None,
        reason=event.reason,
        endClass=event.end_class,
        exitCode=event.exit_code,
        signal=event.signal,
        rank=event.rank,
    )
    if state["imported"] is not None:  # not every update has a row
        state["observedStep"] = attempt["lastStep"] = event.step
    cost.close(
        attempt,
        has_completed=event.end_class == "completed",
        is_paused=event.outcome == "paused",
    )
    state["damaged"] = []


@_apply.register
def _(event: LineRejected, state: State) -> None:
    job = reporting(state, event.originator_id)
    assert job is not None  # a line is that of a job
    job["rejectedLines"] += 1
    if len(job["rejections"]) < SENTENCES:
        job["rejections"].append(event.reason)


def _reporting(event: Event, state: State) -> Attempt:
    """The attempt that said ``event``."""
    return find(state, reporter(event.originator_id))


# -- snapshots; the table of them is the catalogue's -----------------------------------------------


@_apply.register
def _(event: SnapshotOffered, state: State) -> None:
    if "trainingState" in event.artifacts:
        find(state, event.attempt)["writtenStep"] = event.step


@_apply.register
def _(event: SnapshotDamaged, state: State) -> None:
    state["damaged"].append({"snapshotId": event.snapshot_id, "reason": event.reason})


@_apply.register
def _(event: SnapshotRejected, state: State) -> None:
    _fail_save(find(state, event.attempt), event.reason)


@_apply.register
def _(event: SaveFailed, state: State) -> None:
    _fail_save(_reporting(event, state), event.reason)


def _fail_save(attempt: Attempt, reason: str) -> None:
    attempt["failedSaves"] += 1
    attempt["saveFailures"] = [*attempt["saveFailures"], reason][-SENTENCES:]


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
    state["highestStep"] = max(state["highestStep"], step)
    cost.update(attempt["spent"], state["now"])
    throughput.count(attempt, event, state["now"])
    series.add(state["series"], event)
    if state["before"] is not None:
        _compare(state, attempt, event)


def _compare(state: State, attempt: Attempt, event: StepReported) -> None:
    """Note the loss of the first update after a restore beside the one that it had before."""
    before, loss = state["before"], event.measured.get("loss")
    if event.step == before["step"]:
        if loss is None:
            return  # another report of this update may have it
        facts = {"step": event.step, "before": before["loss"], "after": wire.number(loss)}
        attempt["firstLoss"] = facts
    state["before"] = None


@_apply.register
def _(event: ValidationReported, state: State) -> None:
    state["highestStep"] = max(state["highestStep"], event.step)
    series.add(state["series"], event)


@_apply.register
def _(event: RestoreChecked, state: State) -> None:
    _reporting(event, state)["check"] = {
        "verdict": event.verdict,
        "within": None if event.within is None else wire.number(event.within),
        "parts": dict(event.parts),
    }


@_apply.register
def _(event: TrainingBegan, state: State) -> None:
    cost.begin(_reporting(event, state)["spent"], state["now"])
    state["stage"] = None
    if event.total_steps is not None and state["origin"] is None:  # a branch has its budget
        state["totalSteps"] = event.total_steps


@_apply.register
def _(event: StageReported, state: State) -> None:
    state["stage"] = _stage(event.stage, event.completed, event.total)


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
    _reporting(event, state)["hyperparameters"] = wire.plain(event.values)


@_apply.register
def _(event: EngineConfigured, state: State) -> None:
    _reporting(event, state)["engineSettings"] = {
        "requested": wire.plain(event.requested),
        "resolved": wire.plain(event.resolved),
    }


@_apply.register
def _(event: DatasetRead, state: State) -> None:
    state["datasetRows"] = event.rows
    state["datasetIdentity"] = event.identity
    state["validationRows"] = event.validation_rows
    state["validationIdentity"] = event.validation_identity


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
    memory.note(state["memory"], event, _reporting(event, state)["attempt"])


@_apply.register
def _(event: StartChecked, state: State) -> None:
    checks.note(state["startChecks"], event, _reporting(event, state)["attempt"])
