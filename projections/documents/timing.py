"""Time in a run document: whole milliseconds that never run backwards.

Clocks of workers and servers differ, so a moment that lies before the one already reached counts as
that one. Phases are visits: each begins where the one before it ended, so that they add up exactly.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
PARTS = ("waiting", "queued", "preparing", "training", "other")
_PART = {
    "WAITING": "waiting",
    "QUEUED": "queued",
    "PREPARING": "preparing",
    "TRAINING": "training",
}
_ENDING = frozenset({"PAUSING", "CANCELLING"})  # they go on with what the phase before did


def millis(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def text(moment: int | None) -> str | None:
    """The moment as RFC 3339 in UTC, to the millisecond; None stays None."""
    if moment is None:
        return None
    stamp = (EPOCH + moment * MILLISECOND).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def enter(visits: list[dict[str, Any]], phase: str, now: int) -> None:
    """Leave the phase that the run is in and enter ``phase``; nothing when it is there already."""
    last = visits[-1] if visits else None
    if last is not None and last["phase"] == phase:
        return
    part = _PART.get(phase, "other")
    if phase in _ENDING and last is not None and last["part"] == "training":
        part = "training"
    leave(visits, now)
    visits.append({"phase": phase, "part": part, "entered": now, "left": None})


def leave(visits: list[dict[str, Any]], now: int) -> None:
    """End the visit that is open."""
    if visits and visits[-1]["left"] is None:
        visits[-1]["left"] = now


def spent(visits: list[dict[str, Any]], by: str, now: int) -> dict[str, int]:
    """Milliseconds until ``now``, summed by ``phase`` or ``part``."""
    sums: dict[str, int] = {}
    for visit in visits:
        end = now if visit["left"] is None else visit["left"]
        sums[visit[by]] = sums.get(visit[by], 0) + end - visit["entered"]
    return sums
