"""Projections as of a position, built from the first event on in a folder of their own."""

from pathlib import Path

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.source import Source, catch_up
from projections.warehouse import Warehouse

DOCUMENTS = "documents.db"
WAREHOUSE = "warehouse.duckdb"


def build(source: Source, folder: Path, upto: int) -> list[Path]:
    """The files of both projections, as they were when the ledger ended at position ``upto``."""
    paths = [folder / DOCUMENTS, folder / WAREHOUSE]
    database = Database(paths[0], synchronous="NORMAL")
    try:
        catch_up(Documents(database, source), source, upto)
    finally:
        database.close()
    warehouse = Warehouse(paths[1])
    try:
        catch_up(warehouse, source, upto)
        warehouse.make_views()
    finally:
        warehouse.close()
    return paths
