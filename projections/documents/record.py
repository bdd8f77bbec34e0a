"""The record of a run, as users read it, from the folded state."""

import math
from typing import Any

from projections import wire
from projections.documents import timing
from projections.documents.fold import State

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


def record(state: State) -> dict[str, Any]:
    """Everything that is known of the run, but for its liveness, which depends on the clock."""
    plan = state["plan"]
    return {
        "runId": state["runId"],
        "project": plan["project"],
        "name": plan["name"],
        "description": plan["description"],
        "method": plan["method"],
        "baseModel": plan["baseModel"],
        "dataset": plan["dataset"],
        "datasetRows": state["datasetRows"],
        "validationRows": state["validationRows"],
        "phase": state["phase"],
        "waitingFor": state["waitingFor"],
        "stage": state["stage"],
        "progress": _progress(state),
        "observedStep": state["observedStep"],
        "savedStep": None,
        "failure": state["failure"],
        "results": _results(state),
        "cost": _cost(state),
        "timing": _timing(state),
        "memory": {"peakBytes": state["memory"]} if state["memory"] else None,
        "dataFit": state["dataFit"],
        "latest": state["series"]["latest"],
        "attempts": [_attempt(each) for each in state["attempts"]],
        "settings": _settings(state),
        "stated": state["stated"],
        "submittedAt": timing.text(state["submitted"]),
        "submissionId": state["submissionId"],
        "position": state["position"],
    }


def summary(state: State) -> dict[str, Any]:
    """The part of the record that a list shows."""
    whole = record(state)
    return {name: whole[name] for name in SUMMARY} | {"endedAt": timing.text(state["ended"])}


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


def _cost(state: State) -> dict[str, Any]:
    """Device time of every attempt; of the open one an estimate: its training time x devices."""
    attempts = state["attempts"]
    seconds = sum(_device_seconds(each) or 0.0 for each in attempts)
    pending = [each for each in attempts if each["closed"] is None]
    for attempt in pending:
        training = timing.spent(state["visits"], "part", state["now"]).get("training", 0)
        devices = state["plan"]["execution"]["devices"]
        seconds += devices * (training - attempt["trainedBefore"]) / 1000
    names = [name for each in attempts for name in each["devices"]]
    on_cpu = all(name.startswith("cpu") for name in names)
    return {
        "deviceSeconds": seconds,
        "estimate": bool(pending) or (not attempts and state["ended"] is None),
        "deviceKind": ("cpu" if on_cpu else "gpu") if names else None,
    }


def _device_seconds(attempt: dict[str, Any]) -> float | None:
    """Devices x the time from their claim to the last sign of life; None while they are held."""
    if attempt["closed"] is None:
        return None
    return len(attempt["devices"]) * (attempt["released"] - attempt["opened"]) / 1000  # type: ignore[no-any-return]


def _timing(state: State) -> dict[str, Any]:
    """Parts that add up to the whole. An open run lasts to its last sign of life, never to now."""
    visits, ended = state["visits"], state["ended"]
    now = state["now"] if ended is None else ended
    parts = timing.spent(visits, "part", now)
    return {
        "startedAt": timing.text(state["submitted"]),
        "endedAt": timing.text(ended),
        "lastSignAt": timing.text(state["now"]),
        "durationMillis": now - state["submitted"],
        "phaseMillis": timing.spent(visits, "phase", now),
        "visits": [_visit(each, now) for each in visits],
        "split": {f"{part}Millis": parts.get(part, 0) for part in timing.PARTS},
    }


def _visit(visit: dict[str, Any], now: int) -> dict[str, Any]:
    left = visit["left"]
    return {
        "phase": visit["phase"],
        "enteredAt": timing.text(visit["entered"]),
        "leftAt": timing.text(left),
        "millis": (now if left is None else left) - visit["entered"],
    }


def _attempt(attempt: dict[str, Any]) -> dict[str, Any]:
    same = (
        "attempt",
        "devices",
        "launcher",
        "host",
        "reason",
        "endClass",
        "exitCode",
        "signal",
        "firstStep",
        "lastStep",
        "highestStep",
        "rejectedLines",
        "rejections",
    )
    return {name: attempt[name] for name in same} | {
        "openedAt": timing.text(attempt["opened"]),
        "closedAt": timing.text(attempt["closed"]),
        "deviceSeconds": _device_seconds(attempt),
    }


def _settings(state: State) -> dict[str, Any]:
    plan = state["plan"]
    newest = state["attempts"][-1] if state["attempts"] else {}
    labels = ("kind", "project", "name", "description", "method", "baseModel", "dataset")
    return {
        "configuration": plan["config"],
        "hyperparameters": state["hyperparameters"],
        "engineSettings": state["engineSettings"],
        "runtime": plan["execution"]
        | {
            "launcher": newest.get("launcher"),
            "host": newest.get("host"),
            "claimedDevices": newest.get("devices"),
        },
        "run": {name: plan[name] for name in (*labels, "validation", "engine")},
    }
