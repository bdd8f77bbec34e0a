"""What an attempt held its devices for: whole milliseconds of five parts, which add up exactly.

An attempt holds its devices from AttemptOpened to its release, which is its last sign of life:

- waiting: while the run was QUEUED;
- preparing: the rest of the time until training began;
- useful: each update has the time since the one before it, or since training began, and that is
  useful while the update is current;
- repeated: the same of an update that a later restore took back, and what a trainer did after its
  newest update until it went back by itself;
- idle: after the last line that the attempt said.

The time between the last update and the last line is useful when the attempt completed, or was
paused and had written that update out; else it is repeated, since it came to nothing. An attempt
that never trained has no useful and no repeated time.

A restore moves time from useful to repeated; it never gives any back. It may move what an attempt
reported long ago, so it reads the run again (``look_back``) and no step needs a place in the state.
"""

from collections.abc import Iterable
from typing import Any

from projections.documents import imported, throughput, timing

PARTS = ("useful", "repeated", "preparing", "waiting", "idle")

State = dict[str, Any]
Attempt = dict[str, Any]
Spent = dict[str, Any]


def nothing() -> Spent:
    """What an attempt has spent when it opens."""
    return {
        "queued": None,  # when it was handed over
        "left": None,  # when it was at work, or would never be
        "began": None,  # when training did
        "counted": None,  # up to when updates have their time
        "useful": 0,
        "repeated": 0,
        "tail": "useful",  # the part of what came after the last update
    }


def enter(spent: Spent, phase: str, now: int) -> None:
    """The run of an open attempt enters a phase, of which only QUEUED matters here."""
    if phase == "QUEUED":
        spent["queued"] = now
    elif spent["queued"] is not None and spent["left"] is None:
        spent["left"] = now


def begin(spent: Spent, now: int) -> None:
    """The first update is being computed; nothing when that is known."""
    if spent["began"] is None:
        spent["began"] = spent["counted"] = now


def update(spent: Spent, now: int, part: str = "useful") -> None:
    """Count the time that an update took."""
    begin(spent, now)
    spent[part] += now - spent["counted"]
    spent["counted"] = now


def go_back(spent: Spent, now: int) -> None:
    """Count what a trainer did since its newest update, when it went back by itself."""
    if spent["began"] is not None:
        update(spent, now, "repeated")


def close(attempt: Attempt, *, has_completed: bool, is_paused: bool) -> None:
    """Decide what the time after the last update was; the attempt is released already."""
    is_written = attempt["lastStep"] is not None and attempt["writtenStep"] == attempt["lastStep"]
    if not (has_completed or (is_paused and is_written)):
        attempt["spent"]["tail"] = "repeated"


def take_back(attempt: Attempt, step: int) -> None:
    """Nothing is kept of a closed attempt's end when the run goes back below its last update."""
    if attempt["closed"] is not None and (attempt["lastStep"] or 0) > step:
        attempt["spent"]["tail"] = "repeated"


# -- as a record says it ---------------------------------------------------------------------------


def of_run(state: State) -> dict[str, Any]:
    """Device time of every attempt, and what it was for; see ``of_attempt``."""
    if state["imported"] is not None:
        return imported.cost(of_run=True)
    attempts = state["attempts"]
    names = [name for each in attempts for name in each["devices"]]
    on_cpu = all(name.startswith("cpu") for name in names)
    pending = any(each["released"] is None for each in attempts)
    return {
        "deviceSeconds": sum(_held(each, state) for each in attempts) / 1000,
        "estimate": pending or (not attempts and state["ended"] is None),
        "deviceKind": ("cpu" if on_cpu else "gpu") if names else None,
        "split": _seconds(_parts(each) for each in attempts),
        "throughput": throughput.of_run(state),
    }


def of_attempt(attempt: Attempt, state: State) -> dict[str, Any]:
    """Device time of one attempt; while it holds its devices, training time x devices requested.

    The split is what is known of the time that the devices were held, so of an open attempt it also
    has what was no training.
    """
    if state["imported"] is not None:
        return imported.cost(of_run=False)
    return {
        "deviceSeconds": _held(attempt, state) / 1000,
        "estimate": attempt["released"] is None,
        "split": _seconds([_parts(attempt)]),
    }


def released_seconds(attempt: Attempt) -> float | None:
    """Devices x the time from their claim to their release; None while they are held, or none."""
    is_known = attempt["released"] is not None and attempt["devices"]
    return _released(attempt) / 1000 if is_known else None


def _released(attempt: Attempt) -> int:
    return len(attempt["devices"]) * (attempt["released"] - attempt["opened"])  # type: ignore[no-any-return]


def _held(attempt: Attempt, state: State) -> int:
    """Milliseconds of all devices: what was counted, or the estimate."""
    if attempt["released"] is not None:
        return _released(attempt)
    training = timing.spent(state["visits"], "part", state["now"]).get("training", 0)
    return state["plan"]["execution"]["devices"] * (training - attempt["trainedBefore"])  # type: ignore[no-any-return]


def _parts(attempt: Attempt) -> dict[str, int]:
    """Milliseconds of all devices in each part; of an open attempt those up to its last sign."""
    spent, opened, signed = attempt["spent"], attempt["opened"], attempt["lastSign"]
    released = signed if attempt["released"] is None else attempt["released"]
    sums = {"useful": spent["useful"], "repeated": spent["repeated"]}
    if spent["began"] is None:
        sums["waiting"] = _waiting(spent, released)
        sums["preparing"] = max(signed - opened - sums["waiting"], 0)
    else:
        sums["waiting"] = _waiting(spent, spent["began"])
        sums["preparing"] = spent["began"] - opened - sums["waiting"]
        sums[spent["tail"]] += signed - spent["counted"]
    sums["idle"] = released - opened - sum(sums.values())
    return {part: len(attempt["devices"]) * sums[part] for part in PARTS}


def _waiting(spent: Spent, until: int) -> int:
    """Milliseconds in the queue, none of them after ``until``."""
    if spent["queued"] is None:
        return 0
    left = until if spent["left"] is None else min(spent["left"], until)
    return max(left - spent["queued"], 0)  # type: ignore[no-any-return]


def _seconds(parts: Iterable[dict[str, int]]) -> dict[str, float]:
    """Milliseconds by part, summed, in seconds."""
    every = list(parts)
    return {f"{part}Seconds": sum(each[part] for each in every) / 1000 for part in PARTS}
