"""The folded state of a run: mappings that JSON can hold, as small as the run is long or short."""

from functools import lru_cache
from typing import Any

from ledger.events import AttemptOpened, Origin, RunSubmitted, attempt_of, job_of
from projections import wire
from projections.documents import cost, imported, memory, series, timing
from projections.errors import ProjectionError

State = dict[str, Any]
Attempt = dict[str, Any]

reporter = lru_cache(maxsize=1024)(attempt_of)  # events come in long stretches of one stream
_job_of = lru_cache(maxsize=1024)(job_of)


def begin(event: RunSubmitted, position: int) -> State:
    """The state of a run that was submitted."""
    now = timing.millis(event.at)
    state: State = {
        "runId": event.run_id,
        "submissionId": event.submission_id,
        "plan": wire.plain(event.plan),
        "stated": list(event.stated),
        "name": event.plan["name"],
        "description": event.plan["description"],
        "labels": {},
        "imported": imported.of(event),
        "origin": None if event.origin is None else _origin(event.origin),
        "submitted": now,
        "submittedPosition": position,
        "now": now,  # the newest moment that was reached: the last sign of life
        "ended": None,
        "phase": "SUBMITTED",
        "waitingFor": None,
        "stage": None,
        "visits": [],
        "pause": None,
        "failure": None,
        "model": None,
        "observedStep": 0,
        "highestStep": 0,  # of any row, so that a restore beyond it looks nothing up
        "totalSteps": event.plan["config"].get("maxSteps"),
        "restores": [],
        "milestone": {"position": position - 1, "events": 0},  # the newest, and how many since
        "before": None,  # step and loss that the first update after a restore is compared with
        "damaged": [],  # snapshots found so since the newest attempt closed
        "series": series.empty(),
        "preparations": [],
        "attempts": [],
        "memory": memory.empty(),
        "startChecks": {},
        "dataFit": None,
        "datasetRows": None,
        "datasetIdentity": None,
        "validationRows": None,
        "validationIdentity": None,
    }
    timing.enter(state["visits"], "SUBMITTED", now)
    return state


def _origin(said: Origin) -> dict[str, Any]:
    """What a branch begins from."""
    return {
        "parent": said.parent,
        "snapshotId": said.snapshot_id,
        "step": said.step,
        "restore": said.restore,
    }


def attempt(event: AttemptOpened, state: State) -> Attempt:
    """An attempt that was opened just now."""
    return {
        "attempt": event.attempt,
        "devices": list(event.devices),
        "launcher": event.launcher,
        "host": None,
        "opened": state["now"],
        "trainedBefore": timing.spent(state["visits"], "part", state["now"]).get("training", 0),
        "lastSign": state["now"],
        "closed": None,
        "released": None,
        "outcome": None,
        "code": None,
        "reason": None,
        "endClass": None,
        "exitCode": None,
        "signal": None,
        "rank": None,
        "restoredFrom": None,
        "check": None,  # of what was restored, in the worker's words
        "firstLoss": None,  # step, and its loss before and after the restore
        "firstStep": None,
        "lastStep": None,
        "highestStep": None,
        "writtenStep": None,  # newest update whose training state it wrote out
        "superseded": None,
        "spent": cost.nothing(),
        "pace": None,  # tokens of its updates, and how long they took
        "rejectedLines": 0,
        "rejections": [],
        "failedSaves": 0,
        "saveFailures": [],
        "hyperparameters": None,
        "engineSettings": None,
    }


def reporting(state: State, stream: str) -> dict[str, Any] | None:
    """The attempt or the preparation whose reports ``stream`` holds; None for another stream.

    Raises:
        ProjectionError: the run never opened it.
    """
    job = _job_of(stream)
    if job is None or job.kind == "attempt":
        return None if job is None else find(state, job.number)
    for each in reversed(state["preparations"]):
        if each["preparation"] == job.number:
            return each  # type: ignore[no-any-return]
    raise ProjectionError(f"run {state['runId']} never opened its {job}")


def find(state: State, number: int | None) -> Attempt:
    """The attempt of this number.

    Raises:
        ProjectionError: the run never opened it.
    """
    for each in reversed(state["attempts"]):
        if each["attempt"] == number:
            return each  # type: ignore[no-any-return]
    raise ProjectionError(f"run {state['runId']} never opened its attempt {number}")
