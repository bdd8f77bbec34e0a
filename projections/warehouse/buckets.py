"""A long series in few rows: of so many steps the least, the greatest and the mean value.

Where a chart has fewer columns than a run has steps, this keeps every spike that a single point of
each would lose.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from projections import wire
from projections.warehouse.apply import CORE
from projections.warehouse.queries import EVERY_STEP, Steps, Values, core_series, series
from projections.warehouse.store import Warehouse


def reduced(
    warehouse: Warehouse,
    run_id: str,
    fields: Sequence[str],
    *,
    buckets: int,
    between: tuple[int, int] = EVERY_STEP,
    upto: int | None = None,
) -> list[dict[str, Any]]:
    """At most so many buckets of equal width over the current steps that have any of the fields.

    Each has ``from`` and ``to``, and under ``measured`` of each field that it has values of
    ``min``, ``max`` and ``mean`` of the finite ones, their number ``steps``, and ``notFinite``.

    Args:
        warehouse: where they are.
        run_id: whose they are.
        fields: names as the engine has them, ``terms:`` before that of a reward term.
        buckets: their number; a run of fewer steps has one for each step.
        between: lowest and highest step.
        upto: as they were when the ledger ended at this position.
    """
    core = core_series(warehouse, run_id, [each for each in fields if each in CORE], upto=upto)
    found = {
        field: _part(
            *(core[field] if field in core else series(warehouse, run_id, field, upto=upto)),
            between,
        )
        for field in fields
    }
    reached = [steps for steps, _ in found.values() if len(steps)]
    if not reached:
        return []
    first = min(int(steps[0]) for steps in reached)
    last = max(int(steps[-1]) for steps in reached)
    width = -(-(last - first + 1) // buckets)
    told: dict[int, dict[str, Any]] = {}
    for field, (steps, values) in found.items():
        for place, numbers in _reduced((steps - first) // width, values):
            begin = first + place * width
            bounds = {"from": begin, "to": min(begin + width - 1, last), "measured": {}}
            told.setdefault(place, bounds)["measured"][field] = numbers
    return [told[place] for place in sorted(told)]


def _part(steps: Steps, values: Values, between: tuple[int, int]) -> tuple[Steps, Values]:
    begin, end = np.searchsorted(steps, between[0]), np.searchsorted(steps, between[1], "right")
    return steps[begin:end], values[begin:end]


def _reduced(
    places: npt.NDArray[np.int64], values: Values
) -> list[tuple[int, dict[str, float | str | None]]]:
    """What the values of each place come to; places rise."""
    if not len(places):
        return []
    begins = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite.astype(np.int64), begins)
    sizes = np.diff(np.r_[begins, len(values)])
    least = np.minimum.reduceat(np.where(finite, values, np.inf), begins)
    greatest = np.maximum.reduceat(np.where(finite, values, -np.inf), begins)
    sums = np.add.reduceat(np.where(finite, values, 0.0), begins)
    columns = (places[begins], least, greatest, sums, counts, sizes - counts)
    return [
        (
            place,
            {
                "min": low if count else None,
                "max": high if count else None,
                "mean": wire.number(total / count) if count else None,
                "steps": count,
                "notFinite": missing,
            },
        )
        for place, low, high, total, count, missing in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
