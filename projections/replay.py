"""Projections as of a position, built from the first event on in a folder of their own.

Where there is much to build, each projection is built in a process of its own (``apart.py``): on
two cores both take as long as the slower one, and a server that asks goes on answering meanwhile.
"""

from contextlib import closing
from pathlib import Path

from ledger.store.sqlite import Database
from projections import apart
from projections.documents import Documents
from projections.source import Source, pages
from projections.warehouse import Warehouse

DOCUMENTS = "documents.db"
WAREHOUSE = "warehouse.duckdb"
LITTLE = 20_000  # events that are folded before two more interpreters have started


def build(source: Source, folder: Path, upto: int, *, ledger: Path | None = None) -> list[Path]:
    """The files of both projections, as they were when the ledger ended at position ``upto``.

    Args:
        source: the ledger.
        folder: where the files are to be.
        upto: a position of the ledger.
        ledger: the file that its events are in, where other processes can read it.

    Raises:
        CorruptError: an event cannot be read.
        ProjectionError: a process of ours ended before it had finished.
    """
    documents, warehouse = paths = [folder / DOCUMENTS, folder / WAREHOUSE]
    if ledger is None or upto <= LITTLE:
        _build(source, documents, warehouse, upto)
    else:
        apart.build(ledger, {"documents": documents, "warehouse": warehouse}, upto)
    return paths


def _build(source: Source, documents: Path, warehouse: Path, upto: int) -> None:
    """Build both here: each page is read and decoded once."""
    with (
        closing(Database(documents, synchronous="NORMAL")) as database,
        closing(Warehouse(warehouse)) as filled,
    ):
        folded = Documents(database, source)
        for page in pages(source, upto):
            folded.apply(page)
            filled.apply(page)
        filled.make_views()
