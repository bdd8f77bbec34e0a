"""Values as every JSON answer says them: numbers that are not finite are strings."""

import math
from collections.abc import Mapping
from typing import Any

from ledger.numbers import NOT_FINITE

DEPTH = 100  # JSON writers give up on deeper values; what lies below is kept as text
LARGEST = 2**63  # an integer beyond it is no number to most readers of JSON


def number(value: float) -> float | str:
    """``value``, or its name when it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def numbers(values: Mapping[str, float]) -> dict[str, float | str]:
    """Every name with its number."""
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
