"""What a record says of a run that another tracker made and that was imported.

Such a run held no devices of ours, so what it cost is not known. Where its history has no times,
only what the history itself says of its length is told: never when it was imported.
"""

from collections.abc import Mapping
from typing import Any

from ledger.events import RunSubmitted
from projections.documents.timing import PARTS

State = dict[str, Any]
NAMES = ("source", "file", "sha256", "beside", "isTimed", "trainingSeconds")


def of(event: RunSubmitted) -> dict[str, Any] | None:
    """Where an imported run is from; None of any other."""
    engine = event.plan["engine"]
    said = engine.get("imported") if isinstance(engine, Mapping) else None
    if said is None:
        return None
    return {name: said[name] for name in NAMES}


def cost(*, of_run: bool) -> dict[str, Any]:
    """What its devices did, which nobody told."""
    more = {"deviceKind": None, "throughput": None} if of_run else {}
    return {"deviceSeconds": None, "estimate": False, "split": None, **more}


def timing(state: State, told: dict[str, Any]) -> dict[str, Any]:
    """How long it took, as far as that is known: what ``told`` says of any other run.

    Only training is known to have taken time, and of a history without times not even that.
    """
    imported = state["imported"]
    if imported is None:
        return told
    if imported["isTimed"]:
        return told | {"split": _split(told["split"]["trainingMillis"])}
    seconds = imported["trainingSeconds"]
    millis = None if seconds is None else round(seconds * 1000)
    return {
        "startedAt": None,
        "endedAt": None,
        "lastSignAt": None,
        "durationMillis": millis,
        "phaseMillis": {} if millis is None else {"TRAINING": millis},
        "visits": [],
        "split": _split(millis),
    }


def _split(training: int | None) -> dict[str, int | None]:
    return {f"{part}Millis": training if part == "training" else None for part in PARTS}
