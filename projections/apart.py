"""Building projections in processes of their own: ``python -m projections.apart``.

Each reads the ledger's file by itself. What it builds is the same that a server builds live.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

from ledger.errors import CorruptError
from ledger.events import Recorded
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.documents import Documents
from projections.errors import ProjectionError
from projections.source import Source, pages
from projections.warehouse import Warehouse

CORRUPT = 65  # exit code of a process that met an event which it cannot read

Build = Callable[[Source, Path, Iterator[list[Recorded]]], None]


def build(ledger: Path, paths: Mapping[str, Path], upto: int) -> None:
    """Build a projection of each name (``BUILDS`` has them) at its path, at the same time.

    Raises:
        CorruptError: an event cannot be read.
        ProjectionError: one of the processes ended before it had finished.
    """
    with ExitStack() as stack:
        processes = {name: _begun(stack, name, ledger, path, upto) for name, path in paths.items()}
        for name, process in processes.items():
            _, said = process.communicate()
            if process.returncode == CORRUPT:
                raise CorruptError(said)
            if process.returncode:
                sys.stderr.write(said)
                raise ProjectionError(f"the process that built the {name} anew ended in a fault")


def _begun(
    stack: ExitStack, name: str, ledger: Path, path: Path, upto: int
) -> subprocess.Popen[str]:
    """A process that builds the projection, and is killed when nobody waits for it any more."""
    process = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", __name__, name, str(ledger), str(path), str(upto)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def _build_documents(source: Source, path: Path, every: Iterator[list[Recorded]]) -> None:
    with closing(Database(path, synchronous="NORMAL")) as database:
        documents = Documents(database, source)
        for page in every:
            documents.apply(page)


def _build_warehouse(_: Source, path: Path, every: Iterator[list[Recorded]]) -> None:
    with closing(Warehouse(path)) as warehouse:
        for page in every:
            warehouse.apply(page)
        warehouse.make_views()


BUILDS: dict[str, Build] = {"documents": _build_documents, "warehouse": _build_warehouse}


def main(name: str, ledger: str, path: str, upto: str) -> None:
    """Build one projection from the ledger's file, as long as somebody waits for it."""
    # Events make no cycles, and looking for some took a fifth of the time (measured 2026-11-30).
    gc.disable()
    with closing(Database(Path(ledger))) as database:
        source = Ledger(SQLiteRecorder(database), clock=lambda: datetime.now(UTC))  # noqa: TID251
        try:
            BUILDS[name](source, Path(path), _while_wanted(pages(source, int(upto))))
        except CorruptError as error:
            sys.stderr.write(str(error))
            sys.exit(CORRUPT)


def _while_wanted(every: Iterator[list[Recorded]]) -> Iterator[list[Recorded]]:
    """The same pages, until whoever started us is gone."""
    parent = os.getppid()
    for page in every:
        if os.getppid() != parent:
            sys.exit("nobody waits any more")
        yield page


if __name__ == "__main__":
    main(*sys.argv[1:])
