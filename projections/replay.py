"""Projections as of a position, built from the first event on in a folder of their own."""

from contextlib import closing
from pathlib import Path

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.source import Source, pages
from projections.warehouse import Warehouse

DOCUMENTS = "documents.db"
WAREHOUSE = "warehouse.duckdb"


def build(source: Source, folder: Path, upto: int) -> list[Path]:
    """The files of both projections, as they were when the ledger ended at position ``upto``."""
    paths = [folder / DOCUMENTS, folder / WAREHOUSE]
    with (
        closing(Database(paths[0], synchronous="NORMAL")) as database,
        closing(Warehouse(paths[1])) as warehouse,
    ):
        documents = Documents(database, source)
        for page in pages(source, upto):  # each is read and decoded once, for both
            documents.apply(page)
            warehouse.apply(page)
        warehouse.make_views()
    return paths
