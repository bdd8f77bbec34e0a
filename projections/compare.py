"""Whether live projections are what the ledger says: everything is folded again and compared."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.documents.fold import State, fold
from projections.documents.store import Row
from projections.source import Source, events_of, pages
from projections.warehouse import Warehouse

TABLES = (
    "run",
    "phase",
    "failure",
    "attempt",
    "attempt_end",
    "restore",
    "metric",
    "validation",
)

Sums = dict[str, dict[str, Any]]  # by run and column: what its values add up to


class Difference(NamedTuple):
    """Something that a live projection says and its ledger does not, or the other way round."""

    projection: str
    run_id: str
    detail: str  # a sentence that names the field or table


def differences(source: Source, documents: Documents, warehouse: Warehouse) -> list[Difference]:
    """Every difference between the live projections and a fresh replay of their ledger.

    The live ones may go on meanwhile. Rows beyond the position where the comparison began do not
    count, and a document that went beyond it is folded again as far as it has come.
    """
    upto = min(documents.position(), warehouse.position())
    with TemporaryDirectory(prefix="trainledger-replay-") as folder:
        database = Database(Path(folder) / "replay.db", synchronous="NORMAL")
        fresh_documents = Documents(database, source)
        fresh_warehouse = Warehouse(Path(folder) / "replay.duckdb")
        try:
            for page in pages(source, upto):
                fresh_documents.apply(page)
                fresh_warehouse.apply(page)
            return [
                *_documents(source, documents, fresh_documents, upto),
                *_warehouse(warehouse, fresh_warehouse, upto),
            ]
        finally:
            fresh_warehouse.close()
            database.close()


def _documents(
    source: Source, live: Documents, fresh: Documents, upto: int
) -> Iterator[Difference]:
    for run_id in sorted({*live.runs(), *fresh.runs()}):
        ours, theirs = live.row(run_id), fresh.row(run_id)
        if ours is not None and ours.state.get("position", 0) > upto:
            theirs = _folded(source, run_id, ours.state["position"])
        if ours is None or theirs is None:
            yield Difference(
                "documents",
                run_id,
                f"{'no' if ours is None else 'a'} document is "
                f"stored, the ledger makes {'none' if theirs is None else 'one'}",
            )
            continue
        for field in _fields(ours._asdict(), theirs._asdict()):
            yield Difference("documents", run_id, f"{field} differs from the ledger")


def _folded(source: Source, run_id: str, upto: int) -> Row | None:
    """What the ledger makes of a run to position ``upto``."""
    state: State | None = None
    for each in events_of(source, run_id, upto):
        before = each.position - 1
        state = fold(state, each, lambda before=before: events_of(source, run_id, before))  # type: ignore[misc]
    return None if state is None else Row.of(state)


def _fields(live: Any, fresh: Any, path: str = "") -> Iterator[str]:
    """Dotted names of what differs; JSON says nothing that compares unequal to itself."""
    if isinstance(live, dict) and isinstance(fresh, dict):
        for name in sorted(live.keys() | fresh.keys()):
            yield from _fields(live.get(name), fresh.get(name), f"{path}.{name}" if path else name)
    elif live != fresh or type(live) is not type(fresh):
        yield path


def _warehouse(live: Warehouse, fresh: Warehouse, upto: int) -> Iterator[Difference]:
    """Every column of every table, summed over the rows of each run, whatever their order."""
    for table in TABLES:
        with live.read() as ours, fresh.read() as theirs:
            stored, replayed = _sums(ours, table, upto), _sums(theirs, table, upto)
        yield from _unequal(table, stored, replayed)


def _sums(cursor: duckdb.DuckDBPyConnection, table: str, upto: int) -> Sums:
    """A hash of each column with the row's position, summed: equal sums mean equal rows."""
    columns = [name for name, *_ in cursor.execute(f"DESCRIBE {table}").fetchall()]
    hashes = ", ".join(f"sum(hash(position, {name})) AS {name}" for name in columns)
    found = cursor.execute(
        f"SELECT run_id AS run, count(*) AS rows, {hashes} FROM {table}"  # noqa: S608 (ours)
        " WHERE position <= ? GROUP BY run_id",
        [upto],
    ).fetchall()
    return {run: dict(zip(("rows", *columns), sums, strict=True)) for run, *sums in found}


def _unequal(table: str, live: Sums, fresh: Sums) -> Iterator[Difference]:
    for run_id in sorted(live.keys() | fresh.keys()):
        ours, theirs = live.get(run_id, {}), fresh.get(run_id, {})
        rows = (ours.get("rows", 0), theirs.get("rows", 0))
        if rows[0] != rows[1]:
            sentence = f"table {table} has {rows[0]} rows, the ledger makes {rows[1]}"
            yield Difference("warehouse", run_id, sentence)
            continue
        for column in ours:
            if ours[column] != theirs[column]:
                sentence = f"table {table} differs from the ledger in column {column}"
                yield Difference("warehouse", run_id, sentence)
