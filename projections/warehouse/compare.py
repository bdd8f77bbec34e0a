"""Whether a file holds the tables, rows and views that the ledger makes: compared with a fresh one.

Rows are compared by sums over each column of each run, whatever their order in the file.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import duckdb

PARENT = "(SELECT any_value(b.parent) FROM branch AS b WHERE b.token = branch_state.token)"
OWNERS = {
    "branch": "parent",
    "branch_state": f"coalesce({PARENT}, token)",
    "event": "coalesce(run_id, stream)",
}  # else run_id
ROWS = {"rollout": "position, part_place"}  # what tells a row from all others; else position
OF_BRANCHES = frozenset({"branch", "branch_state"})  # what a run's own events do not fill
OURS = frozenset({"tracking", "schema_version"})  # about the file itself

Cursor = duckdb.DuckDBPyConnection
Read = Callable[[], AbstractContextManager[Cursor]]
Sums = dict[str, dict[str, Any]]  # by run and column: what its values add up to


class Found(NamedTuple):
    """What differs."""

    run_id: str | None  # None: it is of no run
    detail: str  # a sentence that names the table or view


def differences(live: Read, fresh: Read, upto: int) -> Iterator[Found]:
    """What one file has and the other, made of the events to position ``upto``, has not.

    The live one may go on meanwhile: rows beyond the position are compared with nothing, as long as
    they are no further than the file itself says that it has come.
    """
    with fresh() as theirs, live() as ours:
        expected, made = _columns(theirs), _columns(ours)
        yield from _unequal("table", made, expected, "has other columns than")
        yield from _unequal("view", _defined(ours), _defined(theirs), "is not the one that")
        for table in sorted(
            name for name, columns in expected.items() if made.get(name) == columns
        ):
            yield from _rows(ours, theirs, table, upto)


def differences_of(live: Read, fresh: Read, upto: int, run_id: str) -> Iterator[Found]:
    """The same of one run, in the tables that its own events fill."""
    with fresh() as theirs, live() as ours:
        expected, made = _columns(theirs), _columns(ours)
        for table in sorted(expected.keys() - OF_BRANCHES):
            if made.get(table) == expected[table]:
                yield from _rows(ours, theirs, table, upto, run_id)
            else:
                yield Found(run_id, f"table {table} has other columns than the ledger makes")


def contents(cursor: Cursor, upto: int) -> dict[str, Sums]:
    """What each table holds to a position: equal for files that hold the same."""
    return {
        table: _sums(cursor, table, columns, upto) for table, columns in _columns(cursor).items()
    }


def _columns(cursor: Cursor) -> dict[str, list[tuple[str, str]]]:
    """The columns of each table that is filled, with their types, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind in cursor.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " SEMI JOIN duckdb_tables() USING (database_oid, table_oid)"
        " WHERE NOT internal ORDER BY table_name, column_index"
    ).fetchall():
        if table not in OURS:
            found.setdefault(table, []).append((name, kind))
    return found


def _defined(cursor: Cursor) -> dict[str, str]:
    """The statement of each view, and what each macro stands for.

    A file that is opened again says an EXCLUDE of two names in any order, so no view has one.
    """
    return dict(
        cursor.execute(
            "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal"
            " UNION ALL SELECT function_name, macro_definition FROM duckdb_functions()"
            " WHERE NOT internal"
        ).fetchall()
    )


def _unequal(
    what: str, live: dict[str, Any], fresh: dict[str, Any], otherwise: str
) -> Iterator[Found]:
    for name in sorted(live.keys() | fresh.keys()):
        if name not in live:
            yield Found(None, f"{what} {name} is missing")
        elif name not in fresh:
            yield Found(None, f"{what} {name} is none that the ledger makes")
        elif live[name] != fresh[name]:
            made = "the ledger makes" if what == "table" else "is made for analysts"
            yield Found(None, f"{what} {name} {otherwise} {made}")


def _rows(
    ours: Cursor, theirs: Cursor, table: str, upto: int, run_id: str | None = None
) -> Iterator[Found]:
    columns = _columns(theirs)[table]
    live = _sums(ours, table, columns, upto, run_id)
    fresh = _sums(theirs, table, columns, upto, run_id)
    for run in sorted(live.keys() | fresh.keys()):
        mine, its = live.get(run, {}), fresh.get(run, {})
        counts = (mine.get("rows", 0), its.get("rows", 0))
        if counts[0] != counts[1]:
            yield Found(run, f"table {table} has {counts[0]} rows, the ledger makes {counts[1]}")
            continue
        for column in mine:
            if mine[column] != its[column]:
                yield Found(run, f"table {table} differs from the ledger in column {column}")
    for run, count in _beyond(ours, table, run_id):
        yield Found(run, f"table {table} has rows of events that the file has not come to: {count}")


def _sums(
    cursor: Cursor,
    table: str,
    columns: list[tuple[str, str]],
    upto: int,
    run_id: str | None = None,
) -> Sums:
    """A hash of each column with what tells the row, summed: equal sums mean equal rows."""
    names, row = [name for name, _ in columns], ROWS.get(table, "position")
    hashes = ", ".join(f"sum(hash({row}, {name})) AS {name}" for name in names)
    which: str = "position <= ?"
    values: list[int | str] = [upto]
    if run_id is not None:
        which, values = f"{which} AND run_id = ?", [upto, run_id]
    found = cursor.execute(
        f"SELECT {_owner(table)} AS run, count(*) AS rows, {hashes} FROM {table}"  # noqa: S608 (ours)
        f" WHERE {which} GROUP BY ALL",
        values,
    ).fetchall()
    return {run: dict(zip(("rows", *names), sums, strict=True)) for run, *sums in found}


def _beyond(cursor: Cursor, table: str, run_id: str | None) -> list[tuple[str, int]]:
    """How many rows of each run are of events after the newest one that the file holds."""
    which, values = ("", []) if run_id is None else (" AND run_id = ?", [run_id])
    return cursor.execute(
        f"SELECT {_owner(table)} AS run, count(*) FROM {table}"  # noqa: S608 (ours)
        " WHERE (position > (SELECT coalesce(max(position), 0) FROM tracking)"
        f" OR position IS NULL){which} GROUP BY ALL ORDER BY ALL",
        values,
    ).fetchall()


def _owner(table: str) -> str:
    return OWNERS.get(table, "run_id")
