"""What the warehouse answers about the series of one run."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import orjson

from projections import wire
from projections.warehouse.apply import CORE
from projections.warehouse.store import Warehouse

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

EVERY_STEP = (0, 2**63 - 1)
PLACE = ("step", "attempt", "segment", "superseded")
TERMS = "terms:"  # before the name of a reward term, where it is one of several fields


def series(
    warehouse: Warehouse, run_id: str, field: str, *, upto: int | None = None
) -> tuple[Steps, Values]:
    """Steps, rising, and the current values of ``field``; steps that lack it are left out.

    With ``upto`` those that were current when the ledger ended at this position.
    """
    rows = Rows("metrics_all", run_id, superseded=False, attempt=None, upto=upto)
    facts = {} if field in CORE else {"field": field}
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT step, position, {value_of(field)} AS value {rows.part} AND value IS NOT NULL",
            rows.facts | facts,
        ).fetchnumpy()
    return newest(found)


def core_series(
    warehouse: Warehouse, run_id: str, fields: Sequence[str], *, upto: int | None = None
) -> dict[str, tuple[Steps, Values]]:
    """The same of several fields of ``CORE``, read and put in order once."""
    if not fields:
        return {}
    rows = Rows("metrics_all", run_id, superseded=False, attempt=None, upto=upto)
    columns = ", ".join(f'"{field}"' for field in fields)
    with warehouse.read() as cursor:
        found = cursor.execute(
            f"SELECT step, position, {columns} {rows.part}", rows.facts
        ).fetchnumpy()
    steps, order = _ordered(found)
    told = {}
    for field in fields:
        values = np.ma.asarray(found[field])[order]
        is_there = ~np.ma.getmaskarray(values)
        told[field] = _last(steps[is_there], values.data[is_there])
    return told


def value_of(field: str) -> str:
    """The SQL of a number of the table metric; one without a column has the placeholder $field."""
    if field in CORE:
        return f'"{field}"'
    if field.startswith(TERMS):
        return f"coalesce(extra[$field], reward_terms[substr($field, {len(TERMS) + 1})])"
    return "extra[$field]"


def newest(found: Mapping[str, npt.NDArray[Any]]) -> tuple[Steps, Values]:
    """Steps, rising, and of several reports of one update the last value.

    ``found`` has columns step, position and value, in any order of rows.
    """
    steps, order = _ordered(found)
    return _last(steps, np.asarray(found["value"])[order])


def _ordered(found: Mapping[str, npt.NDArray[Any]]) -> tuple[Steps, npt.NDArray[np.intp]]:
    """Steps, rising, and the order of rows that makes them rise, reports of one update too."""
    # They lie almost in order, which numpy's sort makes use of: with ORDER BY the same took twice
    # as long (14 against 8 ms for 100,000 steps, measured 2026-11-29).
    order = np.lexsort((found["position"], found["step"]))
    return np.asarray(found["step"])[order], order


def _last(steps: Steps, values: Values) -> tuple[Steps, Values]:
    """Of each step the last value."""
    is_last = np.ones(len(steps), dtype=bool)
    is_last[:-1] = steps[1:] != steps[:-1]
    return steps[is_last], values[is_last]


def metrics(  # noqa: PLR0913 (which part of a series)
    warehouse: Warehouse,
    run_id: str,
    *,
    fields: Collection[str] | None = None,
    between: tuple[int, int] = EVERY_STEP,
    superseded: bool = False,
    attempt: int | None = None,
    upto: int | None = None,
) -> list[dict[str, Any]]:
    """One mapping per update, in order of steps: step, attempt, measured and rewardTerms.

    Args:
        warehouse: where they are.
        run_id: whose they are.
        fields: only these names, ``terms:`` before that of a reward term; an update that has none
            of them stays, with nothing measured.
        between: lowest and highest step.
        superseded: also what a restore took back, each before what came in its place and marked,
            with the restore that was the first to take it back.
        attempt: only what this attempt reported, all of it.
        upto: as it was when the ledger ended at this position.
    """
    rows = Rows("metrics_all", run_id, between, superseded=superseded, attempt=attempt, upto=upto)
    numbers = _Numbers(fields)
    with warehouse.read() as cursor:
        found = rows.fetch(cursor, (*PLACE, *numbers.columns), numbers.facts)
        restores = restores_of(cursor, run_id, upto) if rows.has_superseded else []
    updates: list[dict[str, Any]] = []
    before = None
    for step, number, segment, is_superseded, *values in found:
        place = (step, segment if is_superseded else None)
        if place != before:  # several reports of one update follow one another
            updates.append({"step": step, "attempt": number, "measured": {}})
            before = place
        update = updates[-1]
        update["attempt"] = number
        numbers.add(update, values)
        if is_superseded:
            mark(update, {"segment": segment, "superseded": True, "step": step}, restores)
    return updates


class _Numbers:
    """Which numbers of an update are read, each from its own column, and what is told of them."""

    def __init__(self, fields: Collection[str] | None) -> None:
        """``fields``: the names that are asked for; None for all that there are."""
        self._has_maps = fields is None
        self._names = list(CORE) if fields is None else sorted(fields)
        self._terms = [each.removeprefix(TERMS) for each in self._names if each.startswith(TERMS)]
        self.columns: list[str] = []
        self.facts: dict[str, str] = {}
        for place, name in enumerate(self._names):
            self.columns.append(f'"{name}"' if name in CORE else f"extra[$name{place}]")
            self.facts |= {} if name in CORE else {f"name{place}": name}
        for place, name in enumerate(self._terms):
            self.columns.append(f"reward_terms[$term{place}]")
            self.facts[f"term{place}"] = name
        if fields is None:
            # As text: of a map, DuckDB makes a dict 15 times as slowly (measured 2026-11-29).
            self.columns += ["to_json(extra)", "to_json(reward_terms)"]

    def add(self, update: dict[str, Any], values: Sequence[Any]) -> None:
        """Add a report of an update; of a name that comes twice the later value stays."""
        if self._has_maps:
            *values, extra, text = values
            measured = _present(self._names, values) | _read(extra)
            terms = None if text is None else _read(text)
        else:
            end = len(self._names)
            measured = _present(self._names, values[:end])
            terms = _present(self._terms, values[end:]) or None
        update["measured"].update(_said(measured))
        if terms is not None:
            update.setdefault("rewardTerms", {}).update(_said(terms))


def _read(text: str) -> dict[str, float]:
    """The map that DuckDB wrote; what is not finite it writes as Python does, and JSON never."""
    try:
        found: dict[str, float] = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = json.loads(text)
    return found


def _present(names: Sequence[str], values: Sequence[float | None]) -> dict[str, float]:
    return {n: value for n, value in zip(names, values, strict=True) if value is not None}


def _said(numbers: dict[str, float]) -> Mapping[str, float | str]:
    """The numbers as JSON says them; nearly always all of them are finite, and stay as they are."""
    total = sum(numbers.values())
    return numbers if total - total == 0 else wire.numbers(numbers)


class Page(NamedTuple):
    """The steps of one answer."""

    first: int
    last: int
    next: int | None  # the first step of the page after it


def page(  # noqa: PLR0913 (which part of a series)
    warehouse: Warehouse,
    run_id: str,
    *,
    most: int,
    between: tuple[int, int] = EVERY_STEP,
    limit: int | None = None,
    superseded: bool = False,
    attempt: int | None = None,
    upto: int | None = None,
) -> Page:
    """The first page of a part of a series.

    Args:
        warehouse: where it is.
        run_id: whose it is.
        most: updates of one page.
        between: lowest and highest step.
        limit: only the last so many steps.
        superseded: as for ``metrics``, and ``attempt`` and ``upto`` likewise.
        attempt: the same.
        upto: the same.
    """
    rows = Rows("metrics_all", run_id, between, superseded=superseded, attempt=attempt, upto=upto)
    with warehouse.read() as cursor:
        if limit is not None:
            rows.facts["first"] = rows.first_of_last(cursor, limit)
        after = rows.first_after(cursor, most)
    return Page(rows.facts["first"], between[1] if after is None else after - 1, after)


def validations(
    warehouse: Warehouse,
    run_id: str,
    *,
    between: tuple[int, int] = EVERY_STEP,
    superseded: bool = False,
    attempt: int | None = None,
    upto: int | None = None,
) -> list[dict[str, Any]]:
    """One mapping per validated update and data set: step, attempt, dataset and measured.

    ``superseded``, ``attempt`` and ``upto`` are those of ``metrics``.
    """
    which: dict[str, Any] = {"superseded": superseded, "attempt": attempt, "upto": upto}
    rows = Rows("validations_all", run_id, between, **which)
    columns = (*PLACE, "dataset", "measured")
    with warehouse.read() as cursor:
        found = rows.fetch(cursor, columns, {})
        restores = restores_of(cursor, run_id, upto) if rows.has_superseded else []
    validated: dict[Any, dict[str, Any]] = {}
    for row in (dict(zip(columns, values, strict=True)) for values in found):
        facts = {"step": row["step"], "dataset": row["dataset"], "measured": {}}
        validation = validated.setdefault((row["dataset"], _place(row)), facts)
        validation["attempt"] = row["attempt"]
        validation["measured"].update(wire.numbers(row["measured"]))
        mark(validation, row, restores)
    return list(validated.values())


class Rows:
    """Which rows of a view are asked for."""

    def __init__(
        self,
        view: str,
        run_id: str,
        between: tuple[int, int] = EVERY_STEP,
        *,
        superseded: bool,
        attempt: int | None,
        upto: int | None,
    ) -> None:
        self.facts: dict[str, Any] = {"run": run_id, "first": between[0], "last": between[1]}
        self.has_superseded = superseded or attempt is not None
        clauses = ["run_id = $run", "step BETWEEN $first AND $last"]
        if not self.has_superseded:
            clauses.append("NOT superseded")
        if attempt is not None:
            clauses.append("attempt = $attempt")
            self.facts["attempt"] = attempt
        if upto is not None:
            view = f"{view}_until($upto)"
            self.facts["upto"] = upto
        self.part = f"FROM {view} WHERE {' AND '.join(clauses)}"

    def fetch(
        self, cursor: duckdb.DuckDBPyConnection, columns: Sequence[str], facts: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """The rows, in order of steps and of what came in their place."""
        return cursor.execute(
            f"SELECT {', '.join(columns)} {self.part} ORDER BY step, position",
            {**self.facts, **facts},
        ).fetchall()

    def first_of_last(self, cursor: duckdb.DuckDBPyConnection, limit: int) -> int:
        """The lowest of the last ``limit`` steps."""
        ((step,),) = cursor.execute(
            f"SELECT min(step) FROM (SELECT DISTINCT step {self.part}"  # noqa: S608 (a view of ours)
            " ORDER BY step DESC LIMIT $limit)",
            {**self.facts, "limit": limit},
        ).fetchall()
        return self.facts["last"] if step is None else int(step)

    def first_after(self, cursor: duckdb.DuckDBPyConnection, most: int) -> int | None:
        """The first step beyond the first ``most`` of them; None where there is none."""
        found = cursor.execute(
            f"SELECT DISTINCT step {self.part} ORDER BY step LIMIT 1 OFFSET $most",
            {**self.facts, "most": most},
        ).fetchall()
        return int(found[0][0]) if found else None


def restores_of(
    cursor: duckdb.DuckDBPyConnection, run_id: str, upto: int | None
) -> list[dict[str, Any]]:
    """Every restore of a run, in order; none beyond the position ``upto``."""
    found = cursor.execute(
        "SELECT attempt, step, position, epoch_ms(happened_at) FROM restore"
        " WHERE run_id = $run AND position <= coalesce($upto, position) ORDER BY position",
        {"run": run_id, "upto": upto},
    ).fetchall()
    return [
        {"attempt": attempt, "step": step, "position": position, "at": wire.moment(at)}
        for attempt, step, position, at in found
    ]


def mark(told: dict[str, Any], row: Mapping[str, Any], restores: list[dict[str, Any]]) -> None:
    """Say of a superseded row that it is, and which restore took it back first."""
    if row["superseded"]:
        later = restores[row["segment"] - 1 :]
        told["superseded"] = True
        told["supersededBy"] = next(each for each in later if each["step"] < row["step"])


def _place(row: Mapping[str, Any]) -> tuple[int, int | None]:
    """What the reports of one update share: current ones the step, others the segment as well."""
    return row["step"], row["segment"] if row["superseded"] else None


def merge(update: dict[str, Any], row: Mapping[str, Any], fields: Collection[str] | None) -> None:
    """Add a report of an update; of a name that comes twice the later value stays."""
    core = {name: row[name] for name in CORE if row[name] is not None}
    measured = wire.numbers(core | row["extra"])
    if fields is not None:
        measured = {name: value for name, value in measured.items() if name in fields}
    update["attempt"] = row["attempt"]
    update["measured"].update(measured)
    if row["reward_terms"] is not None:
        update.setdefault("rewardTerms", {}).update(wire.numbers(row["reward_terms"]))
