"""What the warehouse answers about the rollouts of one run: one update at a time."""

from typing import Any, Literal, NamedTuple

import orjson

from projections import wire
from projections.warehouse.queries import EVERY_STEP, Rows, mark, restores_of
from projections.warehouse.store import Warehouse

Order = Literal["scoring", "best", "worst"]

# A score that is no number is neither good nor bad, so it comes last in both orders. Equal scores
# stay in the order of scoring.
_SCORING = "segment, place"
_ORDERS: dict[Order, str] = {
    "scoring": _SCORING,
    "best": f"isnan(score), score DESC, {_SCORING}",
    "worst": f"isnan(score), score, {_SCORING}",
}
_COLUMNS = (
    *("step", "attempt", "segment", "superseded", "place", "prompt", "completion", "score"),
    "terms",
)


class Which(NamedTuple):
    """Which rollouts of a run are asked for."""

    superseded: bool = False  # also those whose update a restore took back
    attempt: int | None = None  # only those that this attempt scored, all of them
    upto: int | None = None  # as they were when the ledger ended at this position

    def rows(self, run_id: str, step: int | None = None) -> Rows:
        """The same as a part of a view."""
        between = EVERY_STEP if step is None else (step, step)
        return Rows("rollouts_all", run_id, between, **self._asdict())


def counts(warehouse: Warehouse, run_id: str, which: Which) -> dict[int, int]:
    """The updates that have rollouts, rising, with how many."""
    rows = which.rows(run_id)
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT step, count(*) {rows.part} GROUP BY step ORDER BY step",
            rows.facts,
        ).fetchall()
    return dict(found)


def rollouts(
    warehouse: Warehouse,
    run_id: str,
    step: int,
    which: Which,
    *,
    order: Order,
    most: int,
) -> list[dict[str, Any]]:
    """The first ``most`` rollouts of an update in an order.

    Each says place, attempt, prompt, completion, score and terms; one that was taken back says so,
    with the restore that was the first to do it.
    """
    rows = which.rows(run_id, step)
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT {', '.join(_COLUMNS)} {rows.part} ORDER BY {_ORDERS[order]} LIMIT $most",
            rows.facts | {"most": most},
        ).fetchall()
        restores = restores_of(cursor, run_id, which.upto) if rows.has_superseded else []
    told = []
    for row in (dict(zip(_COLUMNS, values, strict=True)) for values in found):
        rollout = {
            "place": row["place"],
            "attempt": row["attempt"],
            "prompt": orjson.loads(row["prompt"]),
            "completion": orjson.loads(row["completion"]),
            "score": wire.number(row["score"]),
            "terms": wire.numbers(row["terms"]),
        }
        mark(rollout, row, restores)
        told.append(rollout)
    return told
