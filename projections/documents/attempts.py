"""An attempt of a run, as users read it: what it began from, what it did, how it ended."""

import math
from typing import Any

from projections import wire
from projections.documents import cost
from projections.documents.catalogue import Known
from projections.documents.state import Attempt, State

# Losses of one update that differ by no more than this, relative to the larger, are of the same
# computation: kernels that add in another order change a loss by less, other rows or weights by
# more. A judgement (docs/decisions/0008), not a measurement.
LOSS_LIMIT = 1e-3
AGREEMENTS = ("exact", "within", "differs")  # from the best to the worst
_SAME = (
    "attempt",
    "devices",
    "launcher",
    "host",
    "outcome",
    "code",
    "reason",
    "endClass",
    "exitCode",
    "signal",
    "rank",
    "firstStep",
    "lastStep",
    "highestStep",
    "superseded",
    "rejectedLines",
    "rejections",
    "failedSaves",
    "saveFailures",
)


def record(attempt: Attempt, state: State, known: Known) -> dict[str, Any]:
    """What is known of ``attempt``, one of those of ``state``."""
    restored = _restored_from(attempt, known)
    signed = attempt["lastSign"] if attempt["released"] is None else attempt["released"]
    return {name: attempt[name] for name in _SAME} | {
        "restoredFrom": restored,
        "note": _note(restored, is_branch=state["origin"] is not None),
        "restoreCheck": _restore_check(attempt),
        "openedAt": wire.moment(attempt["opened"]),
        "closedAt": wire.moment(attempt["closed"]),
        "lastSignAt": wire.moment(signed),
        "deviceSeconds": cost.released_seconds(attempt),
        "cost": cost.of_attempt(attempt, state),
    }


def _restored_from(attempt: Attempt, known: Known) -> dict[str, Any] | None:
    restored: dict[str, Any] | None = attempt["restoredFrom"]
    if restored is None:
        return None
    skipped = [each | {"step": known.steps.get(each["snapshotId"])} for each in restored["skipped"]]
    return restored | {"skipped": skipped}


def _note(restored: dict[str, Any] | None, *, is_branch: bool) -> str | None:
    """A sentence where the attempt began from something else than the newest save."""
    if restored is None:
        return None
    skipped = len(restored["skipped"])
    if restored["snapshotId"] is None:
        again = "from where it branched" if is_branch else "from the start"
        whose = "of its own " if is_branch else ""
        if skipped:
            return f"{again}: no snapshot {whose}could be restored"
        return f"{again}: there was no snapshot {whose}to go on from"
    if skipped:
        newer = "a newer snapshot was" if skipped == 1 else f"{skipped} newer snapshots were"
        return f"from step {restored['step']}: {newer} damaged"
    return None


def _restore_check(attempt: Attempt) -> dict[str, Any] | None:
    """What the worker said of what it restored, and whether the first loss bears it out."""
    check, first = attempt["check"], _first_loss(attempt["firstLoss"])
    if check is None and first is None:
        return None
    said = check or {"verdict": "exact", "within": None, "parts": {}}
    verdicts = [said["verdict"], *said["parts"].values(), *([first["verdict"]] if first else [])]
    return said | {"verdict": max(verdicts, key=AGREEMENTS.index), "firstLoss": first}


def _first_loss(losses: dict[str, Any] | None) -> dict[str, Any] | None:
    """The loss of the first update after the restore beside the one that it had before."""
    if losses is None:
        return None
    before, after = wire.read(losses["before"]), wire.read(losses["after"])
    if losses["before"] == losses["after"]:  # as text, NaN equals itself
        return losses | {"verdict": "exact", "within": None}
    if not (math.isfinite(before) and math.isfinite(after)):
        return losses | {"verdict": "differs", "within": None}
    apart = abs(after - before) / max(abs(before), abs(after))
    verdict = "within" if apart <= LOSS_LIMIT else "differs"
    return losses | {"verdict": verdict, "within": wire.number(apart)}
