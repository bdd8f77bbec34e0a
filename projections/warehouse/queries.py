"""What the warehouse answers about the series of one run."""

from collections.abc import Collection, Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from projections import wire
from projections.warehouse.apply import CORE
from projections.warehouse.store import Warehouse

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

EVERY_STEP = (0, 2**63 - 1)
COLUMNS = ("step", "attempt", "segment", "superseded", "extra", "reward_terms", *CORE)


def series(warehouse: Warehouse, run_id: str, field: str) -> tuple[Steps, Values]:
    """Steps, rising, and the current values of ``field``; steps that lack it are left out."""
    value = f'"{field}"' if field in CORE else "extra[$field]"
    facts = {"run": run_id} if field in CORE else {"run": run_id, "field": field}
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT step, position, {value} AS value FROM metrics_all"  # noqa: S608 (ours)
            " WHERE run_id = $run AND NOT superseded AND value IS NOT NULL",
            facts,
        ).fetchnumpy()
    # They lie almost in order, which numpy's sort makes use of: with ORDER BY the same took twice
    # as long (14 against 8 ms for 100,000 steps, measured 2026-11-29).
    order = np.lexsort((found["position"], found["step"]))
    steps, values = np.asarray(found["step"])[order], np.asarray(found["value"])[order]
    newest = np.ones(len(steps), dtype=bool)  # of several reports of one update the last
    newest[:-1] = steps[1:] != steps[:-1]
    return steps[newest], values[newest]


def metrics(
    warehouse: Warehouse,
    run_id: str,
    *,
    fields: Collection[str] | None = None,
    between: tuple[int, int] = EVERY_STEP,
    limit: int | None = None,
    superseded: bool = False,
) -> list[dict[str, Any]]:
    """One mapping per update, in order of steps: step, attempt, measured and rewardTerms.

    Args:
        warehouse: where they are.
        run_id: whose they are.
        fields: only these names; an update that has none of them stays, with nothing measured.
        between: lowest and highest step.
        limit: only the last so many steps.
        superseded: also what a restore took back, each before what came in its place and marked.
    """
    first, last = between
    facts = {"run": run_id, "first": first, "last": last, "superseded": superseded}
    with warehouse.read() as cursor:
        if limit is not None:
            facts["first"] = _first_of_last(cursor, limit, facts)
        found = cursor.execute(
            f"SELECT {', '.join(COLUMNS)} FROM metrics_all"  # noqa: S608 (columns of ours)
            " WHERE run_id = $run AND step BETWEEN $first AND $last"
            " AND ($superseded OR NOT superseded) ORDER BY step, position",
            facts,
        ).fetchall()
    updates: dict[Any, dict[str, Any]] = {}
    for values in found:
        row = dict(zip(COLUMNS, values, strict=True))
        update = updates.setdefault(_place(row), {"step": row["step"], "measured": {}})
        _merge(update, row, fields)
    return list(updates.values())


def validations(
    warehouse: Warehouse,
    run_id: str,
    *,
    between: tuple[int, int] = EVERY_STEP,
    superseded: bool = False,
) -> list[dict[str, Any]]:
    """One mapping per validated update and data set: step, attempt, dataset and measured."""
    with warehouse.read() as cursor:
        found = cursor.execute(
            "SELECT step, attempt, segment, superseded, dataset, measured FROM validations_all"
            " WHERE run_id = $run AND step BETWEEN $first AND $last"
            " AND ($superseded OR NOT superseded) ORDER BY step, position",
            {"run": run_id, "first": between[0], "last": between[1], "superseded": superseded},
        ).fetchall()
    rows: dict[Any, dict[str, Any]] = {}
    for step, attempt, segment, gone, dataset, measured in found:
        place = (dataset, step, segment if gone else None)
        row = rows.setdefault(place, {"step": step, "dataset": dataset, "measured": {}})
        row["attempt"] = attempt
        row["measured"].update(wire.numbers(measured))
        if gone:
            row["superseded"] = True
    return list(rows.values())


def _first_of_last(cursor: duckdb.DuckDBPyConnection, limit: int, facts: Mapping[str, Any]) -> int:
    """The lowest of the last ``limit`` steps."""
    ((step,),) = cursor.execute(
        "SELECT min(step) FROM (SELECT DISTINCT step FROM metrics_all"
        " WHERE run_id = $run AND step BETWEEN $first AND $last"
        " AND ($superseded OR NOT superseded) ORDER BY step DESC LIMIT $limit)",
        {**facts, "limit": limit},
    ).fetchall()
    return facts["last"] if step is None else int(step)


def _place(row: Mapping[str, Any]) -> tuple[int, int | None]:
    """What the reports of one update share: current ones the step, others the segment as well."""
    return row["step"], row["segment"] if row["superseded"] else None


def _merge(update: dict[str, Any], row: Mapping[str, Any], fields: Collection[str] | None) -> None:
    """Add a report of an update; of a name that comes twice the later value stays."""
    core = {name: row[name] for name in CORE if row[name] is not None}
    measured = wire.numbers(core | row["extra"])
    if fields is not None:
        measured = {name: value for name, value in measured.items() if name in fields}
    update["attempt"] = row["attempt"]
    update["measured"].update(measured)
    if row["reward_terms"] is not None:
        update.setdefault("rewardTerms", {}).update(wire.numbers(row["reward_terms"]))
    if row["superseded"]:
        update["superseded"] = True
