"""Preparations of a run's rows, which hold no devices: when each worked, and how it ended."""

from typing import Any

from ledger.events import PreparationClosed, PreparationOpened
from projections import wire
from projections.documents import timing

Preparation = dict[str, Any]

_SAME = (
    "preparation",
    "launcher",
    "outcome",
    "code",
    "reason",
    "endClass",
    "exitCode",
    "signal",
    "rejectedLines",
    "rejections",
)


def opened(event: PreparationOpened, now: int) -> Preparation:
    """A preparation that was opened just now."""
    return {
        "preparation": event.preparation,
        "launcher": event.launcher,
        "opened": now,
        "lastSign": now,
        "closed": None,
        "outcome": None,
        "code": None,
        "reason": None,
        "endClass": None,
        "exitCode": None,
        "signal": None,
        "rejectedLines": 0,
        "rejections": [],
    }


def close(preparation: Preparation, event: PreparationClosed, now: int) -> None:
    """It is over, as of its last sign of life."""
    alive = max(timing.millis(event.last_sign_at), preparation["lastSign"])
    preparation.update(
        closed=now,
        lastSign=min(alive, now),
        outcome=event.outcome,
        code=event.code,
        reason=event.reason,
        endClass=event.end_class,
        exitCode=event.exit_code,
        signal=event.signal,
    )


def record(preparation: Preparation) -> dict[str, Any]:
    """What is known of it. Its seconds are those of a host: no device was held meanwhile."""
    return {name: preparation[name] for name in _SAME} | {
        "openedAt": wire.moment(preparation["opened"]),
        "closedAt": wire.moment(preparation["closed"]),
        "lastSignAt": wire.moment(preparation["lastSign"]),
        "hostSeconds": (preparation["lastSign"] - preparation["opened"]) / 1000,
    }
