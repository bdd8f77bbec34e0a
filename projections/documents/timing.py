"""Time in a run document: whole milliseconds that never run backwards.

Clocks of workers and servers differ, so a moment that lies before the one already reached counts as
that one. Phases are visits: each begins where the one before it ended, so that they add up exactly.
"""

from datetime import datetime
from typing import Any

from ledger.events import (
    Event,
    ReportsClosed,
    RunAnnotated,
    SnapshotCommitted,
    SnapshotDamaged,
    SnapshotOffered,
    SnapshotPinned,
    SnapshotRejected,
    SnapshotsSuperseded,
    SnapshotSwept,
    SnapshotUnpinned,
    UnknownEvent,
)
from projections.wire import EPOCH, MILLISECOND

PARTS = ("waiting", "queued", "preparing", "training", "other")
_PART = {
    "WAITING": "waiting",
    "QUEUED": "queued",
    "PREPARING": "preparing",
    "TRAINING": "training",
}
_ENDING = frozenset({"PAUSING", "CANCELLING"})  # they go on with what the phase before did
TIMELESS: frozenset[type[Event]] = frozenset(
    {
        SnapshotOffered,
        SnapshotCommitted,
        SnapshotRejected,
        SnapshotDamaged,
        SnapshotsSuperseded,
        SnapshotPinned,
        SnapshotUnpinned,
        SnapshotSwept,
        ReportsClosed,
        RunAnnotated,
        UnknownEvent,
    }
)


def reached(now: int, event: Event) -> int:
    """The moment that a run has reached with ``event``.

    Time goes on with every line that an attempt said, and with what happens to the run itself: its
    submission, what people ask of it, its phases, attempts and restores, its end. It stands still
    while files are looked after (committed, pinned, swept or found damaged: the server does that to
    a run that may be long dead), while words are put to it, and while reports are fenced. What a
    worker's own line means for snapshots stands beside that line.
    """
    return now if type(event) in TIMELESS else max(now, millis(event.at))


def millis(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


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
