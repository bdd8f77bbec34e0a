"""The record of a run, as users read it, from the folded state."""

import math
from typing import Any

from projections import wire
from projections.documents import attempts, checks, cost, imported, memory, preparations, timing
from projections.documents.catalogue import NO_SNAPSHOTS, Known
from projections.documents.state import Attempt, State
from projections.errors import UnknownAttemptError

SUMMARY = (
    "runId",
    "project",
    "name",
    "method",
    "baseModel",
    "phase",
    "stage",
    "progress",
    "observedStep",
    "latest",
    "submittedAt",
    "failure",
)


def record(state: State, known: Known, attempt: int | None = None) -> dict[str, Any]:
    """Everything that is known of the run, but for its liveness, which depends on the clock.

    Args:
        state: what was folded.
        known: what a record says of the run's snapshots.
        attempt: whose settings are shown; None for the newest.

    Raises:
        UnknownAttemptError: the run has no attempt of this number.
    """
    plan = state["plan"]
    return {
        "runId": state["runId"],
        "project": plan["project"],
        "name": state["name"],
        "description": state["description"],
        "labels": state["labels"],
        "origin": state["origin"],
        "imported": state["imported"],
        "method": plan["method"],
        "baseModel": plan["baseModel"],
        "dataset": plan["dataset"],
        "datasetRows": state["datasetRows"],
        "datasetIdentity": state["datasetIdentity"],
        "validationRows": state["validationRows"],
        "validationIdentity": state["validationIdentity"],
        "phase": state["phase"],
        "waitingFor": state["waitingFor"],
        "stage": state["stage"],
        "pause": _pause(state),
        "progress": _progress(state),
        "observedStep": state["observedStep"],
        "savedStep": None if known.saved is None else known.saved["step"],
        "saved": known.saved,
        "failure": state["failure"],
        "results": _results(state),
        "cost": cost.of_run(state),
        "timing": imported.timing(state, _timing(state)),
        "memory": memory.record(state["memory"]),
        "dataFit": state["dataFit"],
        "latest": state["series"]["latest"],
        "preparations": [preparations.record(each) for each in state["preparations"]],
        "attempts": [attempts.record(each, state, known) for each in state["attempts"]],
        "settings": _settings(state, attempt),
        "stated": state["stated"],
        "submittedAt": wire.moment(state["submitted"]),
        "submissionId": state["submissionId"],
        "position": state["position"],
    }


def summary(state: State) -> dict[str, Any]:
    """The part of the record that a list shows."""
    whole = record(state, NO_SNAPSHOTS)
    return {name: whole[name] for name in SUMMARY} | {"endedAt": whole["timing"]["endedAt"]}


def _pause(state: State) -> dict[str, Any] | None:
    """What was asked for and how far it came; None when the run is to go on."""
    pause = state["pause"]
    if pause is None:
        return None
    return {
        "checkpoint": pause["checkpoint"],
        "requestedAt": wire.moment(pause["requested"]),
        "resourcesReleased": all(each["closed"] is not None for each in state["attempts"]),
        "failed": pause["failed"],
    }


def _progress(state: State) -> dict[str, Any]:
    done, total = state["observedStep"], state["totalSteps"]
    share = min(1.0, done / total) if total else None
    loss = state["series"]["loss"]
    return {
        "completed": done,
        "total": total,
        "share": 1.0 if state["phase"] == "COMPLETED" else share,
        "lastLoss": loss["last"] if loss else None,
    }


def _results(state: State) -> dict[str, Any]:
    series = state["series"]
    return {
        "model": state["model"],
        "validationLoss": _validation_loss(series["validation"]),
        "validationLosses": {
            dataset: _validation_loss(row) for dataset, row in series["validations"].items()
        },
        "trainingLoss": _training_loss(series["loss"]),
        "startChecks": checks.record(state["startChecks"]),
    }


def _validation_loss(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    try:
        perplexity = wire.number(math.exp(wire.read(row["value"])))
    except OverflowError:
        perplexity = None
    return row | {"perplexity": perplexity}


def _training_loss(sums: dict[str, Any] | None) -> dict[str, Any] | None:
    """First and last as they came; the mean over the finite ones, ``steps`` of them."""
    if sums is None:
        return None
    mean = wire.number(wire.read(sums["sum"]) / sums["steps"]) if sums["steps"] else None
    return {
        "first": sums["first"],
        "last": sums["last"],
        "mean": mean,
        "steps": sums["steps"],
        "notFinite": sums["notFinite"],
    }


def _timing(state: State) -> dict[str, Any]:
    """Parts that add up to the whole. An open run lasts to its last sign of life, never to now."""
    visits, ended = state["visits"], state["ended"]
    now = state["now"] if ended is None else ended
    parts = timing.spent(visits, "part", now)
    return {
        "startedAt": wire.moment(state["submitted"]),
        "endedAt": wire.moment(ended),
        "lastSignAt": wire.moment(state["now"]),
        "durationMillis": now - state["submitted"],
        "phaseMillis": timing.spent(visits, "phase", now),
        "visits": [_visit(each, now) for each in visits],
        "split": {f"{part}Millis": parts.get(part, 0) for part in timing.PARTS},
    }


def _visit(visit: dict[str, Any], now: int) -> dict[str, Any]:
    left = visit["left"]
    return {
        "phase": visit["phase"],
        "enteredAt": wire.moment(visit["entered"]),
        "leftAt": wire.moment(left),
        "millis": (now if left is None else left) - visit["entered"],
    }


def _settings(state: State, number: int | None) -> dict[str, Any]:
    """The plan, and what the worker of one attempt made of it."""
    plan, attempt = state["plan"], _attempt(state, number)
    labels = ("kind", "project", "name", "description", "method", "baseModel", "dataset")
    return {
        "configuration": plan["config"],
        "hyperparameters": attempt.get("hyperparameters"),
        "engineSettings": attempt.get("engineSettings"),
        "runtime": plan["execution"]
        | {
            "launcher": attempt.get("launcher"),
            "host": attempt.get("host"),
            "claimedDevices": attempt.get("devices"),
        },
        "run": {name: plan[name] for name in (*labels, "validation", "engine")},
    }


def _attempt(state: State, number: int | None) -> Attempt:
    """The attempt of this number, or the newest; empty when none was opened yet."""
    if number is None:
        return state["attempts"][-1] if state["attempts"] else {}
    for each in state["attempts"]:
        if each["attempt"] == number:
            return each  # type: ignore[no-any-return]
    raise UnknownAttemptError(
        f"run {state['runId']} has no attempt {number}; it has {len(state['attempts'])}"
    )
