"""Whether live projections are what the ledger says: everything is folded again and compared."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.documents.tables import Branching, Whole
from projections.replay import build
from projections.source import Source, catch_up, pages_of
from projections.sql import sandbox
from projections.warehouse import Warehouse, compare as rows

PUBLISHED = "published copy"
COPY_BYTES = 1 << 30  # of memory, to read it with: whoever edited it may want more


class Difference(NamedTuple):
    """Something that a live projection says and its ledger does not, or the other way round."""

    projection: str
    run_id: str | None  # None: it is of no run
    detail: str  # a sentence that names the field, the table or the view


def differences(
    source: Source,
    documents: Documents,
    warehouse: Warehouse,
    *,
    ledger: Path | None = None,
    copy: Path | None = None,
) -> list[Difference]:
    """Every difference between the live projections and a fresh replay of their ledger.

    The live ones may go on meanwhile. Rows beyond the position where the comparison began do not
    count, and a document that went beyond it is folded again as far as it has come. ``ledger`` is
    the file that the events are in, as for ``replay.build``; ``copy`` is the file that analysts
    read, compared as far as it goes.

    Raises:
        CorruptError: an event cannot be read.
        ProjectionError: there was no replay.
    """
    upto = min(documents.position(), warehouse.position())
    with TemporaryDirectory(prefix="trainledger-replay-") as folder:
        paths = build(source, Path(folder), upto, ledger=ledger)
        with (
            closing(Database(paths[0], synchronous="NORMAL")) as database,
            closing(Warehouse(paths[1])) as fresh_warehouse,
        ):
            fresh_documents = Documents(database, source)
            return [
                *_documents(source, documents, fresh_documents, upto),
                *_branching(source, documents, fresh_documents),
                *_warehouse(warehouse, fresh_warehouse, upto),
                *(_copy(copy, fresh_warehouse, upto) if copy and copy.exists() else ()),
            ]


def differences_of(
    source: Source, documents: Documents, warehouse: Warehouse, run_id: str
) -> list[Difference]:
    """The same of one run, from its own events: what its branches are is not among them."""
    upto = warehouse.position()
    ours = documents.whole(run_id)
    position = upto if ours.row is None else ours.row.state.get("position", upto)
    found = list(_document(run_id, ours, _folded(source, run_id, position)))
    fresh = Warehouse(":memory:")
    try:
        for page in pages_of(source, run_id, upto):
            fresh.apply(page)
        theirs = rows.differences_of(warehouse.read, fresh.read, upto, run_id)
        return found + [Difference("warehouse", *each) for each in theirs]
    finally:
        fresh.close()


def _warehouse(live: Warehouse, fresh: Warehouse, upto: int) -> Iterator[Difference]:
    live.make_views()
    for each in rows.differences(live.read, fresh.read, upto):
        yield Difference("warehouse", *each)


def _documents(
    source: Source, live: Documents, fresh: Documents, upto: int
) -> Iterator[Difference]:
    for run_id in sorted({*live.runs(), *fresh.runs()}):
        ours, theirs = live.whole(run_id), fresh.whole(run_id)
        if ours.row is not None and ours.row.state.get("position", 0) > upto:
            theirs = _folded(source, run_id, ours.row.state["position"])
        yield from _document(run_id, ours, theirs)


def _document(run_id: str, ours: Whole, theirs: Whole) -> Iterator[Difference]:
    """What a run's document says and the ledger does not, or the other way round."""
    if ours.row is None and theirs.row is None:
        sentence = "snapshots are stored, the ledger knows no such run"
        yield Difference("documents", run_id, sentence)
    elif ours.row is None or theirs.row is None:
        yield Difference(
            "documents",
            run_id,
            f"{'no' if ours.row is None else 'a'} document is "
            f"stored, the ledger makes {'none' if theirs.row is None else 'one'}",
        )
    else:
        for field in _fields(_by_name(ours), _by_name(theirs)):
            yield Difference("documents", run_id, f"{field} differs from the ledger")


def _folded(source: Source, run_id: str, upto: int) -> Whole:
    """What the ledger makes of a run to position ``upto``."""
    database = Database(":memory:")
    try:
        folded = Documents(database, source)
        for page in pages_of(source, run_id, upto):
            folded.apply(page)
        return folded.whole(run_id)
    finally:
        database.close()


def _by_name(whole: Whole) -> dict[str, Any]:
    """The columns of a document, with the rows that belong to it under their ids."""
    return (whole.row._asdict() if whole.row else {}) | {
        "snapshots": {each["snapshot_id"]: each for each in whole.snapshots},
        "snapshotsBefore": {
            f"{each['snapshot_id']}.{each['position']}": each for each in whole.past
        },
        "offers": {str(each["position"]): each for each in whole.offers},
        "milestones": {str(at): digest for at, digest in whole.milestones.items()},
    }


def _branching(source: Source, live: Documents, fresh: Documents) -> Iterator[Difference]:
    """What differs in the tables that belong to no single run.

    Their rows change in place, so the fresh ones follow to the position that the live ones have.
    """
    stored = live.branching()
    catch_up(fresh, source, stored.position)
    ours, theirs = _by_run(stored), _by_run(fresh.branching())
    for run_id in sorted(ours.keys() | theirs.keys()):
        for field in _fields(ours[run_id], theirs[run_id]):
            yield Difference("documents", run_id, f"{field} differs from the ledger")


def _by_run(stored: Branching) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows under the run whose snapshots they are about, by what tells them apart."""
    rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(
        lambda: {"branches": {}, "holders": {}}
    )
    for row in stored.branches:
        rows[row["parent"]]["branches"][row["token"]] = row
    for row in stored.holders:
        holds = rows[row["run_id"]]["holders"].setdefault(
            f"{row['snapshot_id']}.{row['holder']}", {}
        )
        holds[str(row["held"])] = row
    return rows


def _fields(live: Any, fresh: Any, path: str = "") -> Iterator[str]:
    """Dotted names of what differs; JSON says nothing that compares unequal to itself."""
    if isinstance(live, dict) and isinstance(fresh, dict):
        for name in sorted(live.keys() | fresh.keys()):
            yield from _fields(live.get(name), fresh.get(name), f"{path}.{name}" if path else name)
    elif live != fresh or type(live) is not type(fresh):
        yield path


def _copy(copy: Path, fresh: Warehouse, upto: int) -> Iterator[Difference]:
    """What the copy for analysts says and the ledger does not, as far as the copy goes."""
    try:
        with sandbox.connect(copy, memory_bytes=COPY_BYTES, threads=1) as connection:
            ((position,),) = connection.execute("SELECT max(position) FROM tracking").fetchall()
            found = list(rows.differences(connection.cursor, fresh.read, min(position or 0, upto)))
    except duckdb.Error as error:
        yield Difference(PUBLISHED, None, f"the file cannot be read: {str(error).splitlines()[0]}")
        return
    yield from (Difference(PUBLISHED, *each) for each in found)
