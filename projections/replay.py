"""Projections as of a position, built from the first event on in a folder of their own.

Where there is much to build, each projection is built in a process of its own (``apart.py``): on
two cores both take as long as the slower one, and a server that asks goes on answering meanwhile.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from projections import apart
from projections.apart import BUILDS, Progress
from projections.source import Source, pages

DOCUMENTS = "documents.db"
WAREHOUSE = "warehouse.duckdb"
FILES = {"documents": DOCUMENTS, "warehouse": WAREHOUSE}
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
    paths = files(folder, FILES)
    for _ in building(source, paths, upto, ledger=ledger):
        pass
    return list(paths.values())


def files(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Where the projections of these names are in a folder."""
    return {name: folder / FILES[name] for name in names}


def building(
    source: Source, paths: Mapping[str, Path], upto: int, *, ledger: Path | None = None
) -> Generator[Progress, None, None]:
    """The same for the projections of these names, at these paths, with how far each has come."""
    if ledger is None or upto <= LITTLE:
        yield from _building_here(source, paths, upto)
    else:
        yield from apart.build(ledger, paths, upto)


def _building_here(
    source: Source, paths: Mapping[str, Path], upto: int
) -> Generator[Progress, None, None]:
    """Build them in this process: each page is read and decoded once."""
    with ExitStack() as stack:
        built = [stack.enter_context(BUILDS[name](source, path)) for name, path in paths.items()]
        for page in pages(source, upto):
            for each in built:
                each.apply(page)
                yield Progress(each.name, each.position())
