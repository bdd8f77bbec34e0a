"""Values as every JSON answer says them: a number that is not finite is a string, as is a time."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from ledger.numbers import NOT_FINITE

DEPTH = 100  # JSON writers give up on deeper values; what lies below is kept as text
LARGEST = 2**63  # an integer beyond it is no number to most readers of JSON
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@cache
def kind_of(event: type[object]) -> str:
    """The name of a kind of event as streams say it, for example ``stepReported``."""
    return event.__name__[0].lower() + event.__name__[1:]


def number(value: float) -> float | str:
    """``value``, or its name when it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def numbers(values: Mapping[str, float]) -> dict[str, float | str]:
    """Every name with its number."""
    if math.isfinite(sum(values.values())):  # one that is not would make the sum so; 4 times faster
        return dict(values)
    return {name: number(value) for name, value in values.items()}


def read(value: float | str) -> float:
    """The number that ``number`` wrote."""
    return NOT_FINITE[value] if isinstance(value, str) else value


def plain(value: Any, depth: int = DEPTH) -> Any:
    """``value`` as JSON that every reader takes, to any depth and size of integer."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and abs(value) >= LARGEST:
        return str(value)
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if depth == 0:
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each, depth - 1) for key, each in value.items()}
    return [plain(each, depth - 1) for each in value]


def moment(millis: int | None) -> str | None:
    """Milliseconds since 1970 as RFC 3339 in UTC, to the millisecond; None stays None."""
    if millis is None:
        return None
    stamp = (EPOCH + millis * MILLISECOND).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")
