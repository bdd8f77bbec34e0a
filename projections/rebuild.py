"""Making projections anew from position 0 beside the live ones, which serve until they swap."""

import sqlite3
from collections.abc import Collection, Generator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ledger.store.sqlite import Database
from projections import replay
from projections.apart import Progress
from projections.documents import Documents
from projections.documents.tables import TABLES, TRACKING
from projections.source import Source, catch_up
from projections.warehouse import Warehouse


class Live(NamedTuple):
    """The projections that a server reads."""

    documents: Documents
    warehouse: Warehouse


def forget_documents(path: Path) -> None:
    """Have the documents in the event database at ``path`` made anew by whoever opens it next."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in (*TABLES, TRACKING):
            connection.execute(f"DROP TABLE IF EXISTS {table}")


def rebuild(
    live: Live,
    source: Source,
    folder: Path,
    names: Collection[str] = tuple(replay.FILES),
    *,
    ledger: Path | None = None,
) -> Generator[Progress, None, None]:
    """Build the projections of these names, then put each in the place of the live one at once.

    Whoever asks no further before the end leaves the live ones as they are, or a whole new one.

    Args:
        live: what is replaced.
        source: the ledger.
        folder: an empty one, on the file system of the live ones.
        names: of those that are to be made anew.
        ledger: the file that the events are in, as for ``replay.build``.

    Raises:
        CorruptError: an event cannot be read.
        ProjectionError: a process of ours ended before it had finished.
    """
    paths = replay.files(folder, names)
    yield from replay.building(source, paths, source.position(), ledger=ledger)
    if "documents" in paths:
        _replace_documents(live.documents, source, paths["documents"])
        yield Progress("documents", live.documents.position())
    if "warehouse" in paths:
        _replace_warehouse(live.warehouse, source, paths["warehouse"])
        yield Progress("warehouse", live.warehouse.position())


def _replace_documents(live: Documents, source: Source, path: Path) -> None:
    with closing(Database(path, synchronous="NORMAL")) as database:
        fresh = Documents(database, source)
        catch_up(fresh, source, source.position())  # nobody waits for this, but for what is left
        live.replace(fresh, source)


def _replace_warehouse(live: Warehouse, source: Source, path: Path) -> None:
    with closing(Warehouse(path)) as fresh:
        catch_up(fresh, source, source.position())
        live.replace(fresh, source)
