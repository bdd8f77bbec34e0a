"""The line of a branch: its ancestors' updates up to where each was left, then its own.

Steps are a running count: an update of a child comes after all those of its line before it. What an
ancestor gives is what its child began from. So a restore does not count where the ancestor went
back after the snapshot was written, nor does what it then trained anew; and where the snapshot was
of updates that had been taken back by then, those are the ones.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from projections.warehouse.apply import CORE
from projections.warehouse.queries import Steps, Values, merge, newest, value_of
from projections.warehouse.store import Warehouse

END = 2**63 - 1  # beyond every step and position


class Stretch(NamedTuple):
    """What one run gives to a line."""

    run_id: str
    before: int  # updates of the line that come before its own
    last: int  # its last update that counts
    written: int  # position of the snapshot that was branched from, END for the newest run


# A report is of the line iff the run did not go back below its step between that report and the
# writing of the snapshot, whichever came first: a step may be reported just after it was saved.
_LINE = """
FROM (
    SELECT
        unnest($runs) AS run_id, unnest($before) AS before, unnest($last) AS last,
        unnest($written) AS written
) AS line
JOIN metric AS m
    ON m.run_id = line.run_id AND m.step <= line.last AND m.position <= $upto
ANTI JOIN restore AS r
    ON r.run_id = m.run_id
    AND r.position <= $upto
    AND r.step < m.step
    AND r.position > least(m.position, line.written)
    AND r.position < greatest(m.position, line.written)
"""
_COLUMNS = ("before", "step", "m.run_id", "attempt", "extra", "reward_terms", *CORE)


def stretches(ancestry: Iterable[Mapping[str, Any]]) -> list[Stretch]:
    """What each run of an ancestry (as documents tell it, the root first) gives to the line."""
    runs = list(ancestry)
    before = accumulate((run["step"] for run in runs[1:]), initial=0)
    left = [(child["step"], child["writtenPosition"] or END) for child in runs[1:]]
    return [
        Stretch(run["runId"], count, *end)
        for run, count, end in zip(runs, before, [*left, (END, END)], strict=False)
    ]


def series(
    warehouse: Warehouse,
    ancestry: Iterable[Mapping[str, Any]],
    field: str,
    *,
    upto: int | None = None,
) -> tuple[Steps, Values]:
    """Steps of the line, rising, and the values of ``field``; steps that lack it are left out.

    ``upto``: as they were when the ledger ended at this position.
    """
    facts: dict[str, Any] = {} if field in CORE else {"field": field}
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT before + step AS step, position, {value_of(field)} AS value {_LINE}"
            " WHERE value IS NOT NULL",
            facts | _placeholders(ancestry, upto),
        ).fetchnumpy()
    return newest(found)


def metrics(
    warehouse: Warehouse,
    ancestry: Iterable[Mapping[str, Any]],
    *,
    fields: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """One mapping per update of the line: step, runId, runStep, attempt, measured, rewardTerms.

    Args:
        warehouse: where they are.
        ancestry: whose line it is, the root first.
        fields: only these names; an update that has none of them stays, with nothing measured.
    """
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT {', '.join(_COLUMNS)} {_LINE} ORDER BY before + step, position",
            _placeholders(ancestry),
        ).fetchall()
    updates: dict[int, dict[str, Any]] = {}
    for row in (dict(zip(_COLUMNS, values, strict=True)) for values in found):
        step = row["before"] + row["step"]
        facts = {"step": step, "runId": row["m.run_id"], "runStep": row["step"], "measured": {}}
        merge(updates.setdefault(step, facts), row, fields)
    return list(updates.values())


def _placeholders(ancestry: Iterable[Mapping[str, Any]], upto: int | None = None) -> dict[str, Any]:
    """A list for each column of the stretches, and the position that they are read to."""
    runs = stretches(ancestry)
    return {
        "upto": END if upto is None else upto,
        "runs": [each.run_id for each in runs],
        "before": [each.before for each in runs],
        "last": [each.last for each in runs],
        "written": [each.written for each in runs],
    }
