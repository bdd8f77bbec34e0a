"""The series of a run as a file of columns: one row for each update, one column for each number.

Numbers have the engine's own names, ``terms:`` before that of a reward term; ``step``, ``attempt``
and ``superseded`` are ours, and a number that has one of these names stands under ``measured:``.
"""

import csv
import io
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from projections import wire
from projections.warehouse.apply import CORE
from projections.warehouse.queries import TERMS, Rows
from projections.warehouse.store import Warehouse

CHUNK = 2_000  # rows that are written at once
OURS = ("step", "attempt", "superseded")


class Export:
    """The rows that are asked for, with several reports of one update merged."""

    def __init__(
        self, warehouse: Warehouse, rows: Rows, *, fields: Collection[str] | None = None
    ) -> None:
        """``fields``: only these names, ``terms:`` before that of a reward term."""
        self._warehouse = warehouse
        self._rows = rows
        self._fields = fields

    def csv(self) -> Iterator[str]:
        """The lines, some at a time: an absent number is empty, one that is not finite a word."""
        with self._warehouse.read() as cursor:
            names = self._make(cursor)
            found = cursor.execute("SELECT * FROM exported ORDER BY ALL").fetchnumpy()
            columns = [found[f"c{place}"].tolist() for place in range(len(names))]
        return chain([_lines([names])], _chunks(columns))

    def parquet(self) -> bytes:
        """The file. Of two names that differ in case alone, DuckDB gives the second a suffix."""
        with self._warehouse.read() as cursor, TemporaryDirectory() as folder:
            names = self._make(cursor)
            columns = ", ".join(f"c{place} AS {_quoted(name)}" for place, name in enumerate(names))
            file = Path(folder) / "metrics.parquet"
            cursor.execute(
                f"COPY (SELECT {columns} FROM (SELECT * FROM exported ORDER BY ALL))"  # noqa: S608
                f" TO '{file}' (FORMAT parquet)"
            )
            return file.read_bytes()

    def _make(self, cursor: duckdb.DuckDBPyConnection) -> list[str]:
        """Make the table of the rows, for this cursor alone, and answer its columns' names."""
        has_superseded = self._rows.has_superseded
        ours = OURS if has_superseded else OURS[:2]
        numbers = self._numbers(cursor)
        columns = ["step AS c0", "max(attempt) AS c1"]
        group = "step"
        if has_superseded:
            columns.append("any_value(superseded) AS c2")
            group = "step, CASE WHEN superseded THEN segment END"
        facts = dict(self._rows.facts)
        for place, name in enumerate(numbers):
            value = _value(name, f"name{place}")
            facts |= {} if name in CORE else {f"name{place}": name.removeprefix(TERMS)}
            columns.append(f"arg_max({value}, position) AS c{len(ours) + place}")
        cursor.execute(
            f"CREATE TEMP TABLE exported AS SELECT {', '.join(columns)} {self._rows.part}"
            f" GROUP BY {group}",
            facts,
        )
        return [*ours, *(f"measured:{name}" if name in OURS else name for name in numbers)]

    def _numbers(self, cursor: duckdb.DuckDBPyConnection) -> list[str]:
        """The names that are asked for, or all that the rows have."""
        if self._fields is not None:
            return sorted(self._fields)
        core = ", ".join(f'count("{name}") > 0' for name in CORE)
        (present,) = cursor.execute(f"SELECT {core} {self._rows.part}", self._rows.facts).fetchall()
        named = [name for name, is_present in zip(CORE, present, strict=True) if is_present]
        for column, prefix in (("extra", ""), ("reward_terms", TERMS)):
            found = cursor.execute(
                f"SELECT DISTINCT unnest(map_keys({column})) AS name {self._rows.part}"
                " ORDER BY name",
                self._rows.facts,
            ).fetchall()
            named += [f"{prefix}{name}" for (name,) in found]
        return named


def _value(name: str, place: str) -> str:
    """The SQL of a number."""
    if name in CORE:
        return f'"{name}"'
    return f"{'reward_terms' if name.startswith(TERMS) else 'extra'}[${place}]"


def _quoted(name: str) -> str:
    """A name as an identifier of SQL, which cannot hold everything that a name can."""
    return '"{}"'.format(name.replace("\0", "\ufffd").replace('"', '""') or " ")


def _chunks(columns: list[list[Any]]) -> Iterator[str]:
    for first in range(0, len(columns[0]), CHUNK):
        yield _lines(zip(*(column[first : first + CHUNK] for column in columns), strict=True))


def _lines(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_said(each) for each in row] for row in rows)
    return text.getvalue()


def _said(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return wire.number(value) if isinstance(value, float) else value
