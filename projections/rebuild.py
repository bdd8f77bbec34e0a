"""Rebuilding a projection from position 0 beside the live one, which serves until they swap."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.documents.tables import TABLES, TRACKING
from projections.source import Source, catch_up
from projections.warehouse import Warehouse


def forget_documents(path: Path) -> None:
    """Have the documents in the event database at ``path`` made anew by whoever opens it next."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in (*TABLES, TRACKING):
            connection.execute(f"DROP TABLE IF EXISTS {table}")


def rebuild_documents(live: Documents, source: Source) -> None:
    """Fold every document again and put them all in place at once."""
    with TemporaryDirectory(prefix="trainledger-documents-") as folder:
        database = Database(Path(folder) / "documents.db", synchronous="NORMAL")
        try:
            fresh = Documents(database, source)
            catch_up(fresh, source, source.position())
            live.replace(fresh, source)
        finally:
            database.close()


def rebuild_warehouse(live: Warehouse, source: Source, path: Path) -> None:
    """Fill a new file at ``path``, on the file system of the live one, and move it into place."""
    path.unlink(missing_ok=True)
    fresh = Warehouse(path)
    catch_up(fresh, source, source.position())
    live.replace(fresh, source)
