"""Building projections in processes of their own: ``python -m projections.apart``.

Each reads the ledger's file by itself, and says on stdout how far it has come. What it builds is
the same that a server builds live.
"""

import gc
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from ledger.errors import CorruptError
from ledger.events import Recorded
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.documents import Documents
from projections.errors import ProjectionError
from projections.follow import Projection
from projections.source import Source, pages
from projections.warehouse import Warehouse

CORRUPT = 65  # exit code of a process that met an event which it cannot read
NICENESS = 10  # trainers and the server go first
SIGN_SECONDS = 1.0  # at most between two words to whoever waits, who may have had enough
SAID_BYTES = 1 << 16  # all that a pipe holds: a process writes whole lines, so these are whole


class Progress(NamedTuple):
    """How far a projection has come that is being built."""

    projection: str
    position: int  # of the newest event that it holds


class _Builder(NamedTuple):
    """A process that builds a projection."""

    name: str
    process: subprocess.Popen[str]
    complaints: IO[str]  # what it writes to stderr

    def told(self) -> Iterator[Progress]:
        """What it says next; nothing once it has ended as it should.

        Raises:
            CorruptError: it met an event that it cannot read.
            ProjectionError: it ended before it had finished.
        """
        assert self.process.stdout is not None
        if said := os.read(self.process.stdout.fileno(), SAID_BYTES):
            yield Progress(self.name, int(said.split()[-1]))
            return
        if not self.process.wait():
            return
        self.complaints.seek(0)
        complaint = self.complaints.read()
        if self.process.returncode == CORRUPT:
            raise CorruptError(complaint)
        sys.stderr.write(complaint)
        raise ProjectionError(f"the process that built the {self.name} anew ended in a fault")


def build(ledger: Path, paths: Mapping[str, Path], upto: int) -> Generator[Progress, None, None]:
    """Build a projection of each name (``BUILDS`` has them) at its path, at the same time.

    The first process that ends in a fault ends the others, and so does whoever asks no further.

    Raises:
        CorruptError: an event cannot be read.
        ProjectionError: one of the processes ended before it had finished.
    """
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for name, path in paths.items():
            builder = _begun(stack, name, ledger, path, upto)
            assert builder.process.stdout is not None
            selector.register(builder.process.stdout, selectors.EVENT_READ, builder)
        newest = {name: Progress(name, 0) for name in paths}
        while selector.get_map():
            for key, _ in selector.select(SIGN_SECONDS):
                told = list(key.data.told())
                newest |= {each.projection: each for each in told}
                if not told:
                    selector.unregister(key.fileobj)
            yield from newest.values()


def _begun(stack: ExitStack, name: str, ledger: Path, path: Path, upto: int) -> _Builder:
    """A process that builds the projection, and is killed when nobody waits for it any more."""
    complaints = stack.enter_context(TemporaryFile("w+", errors="replace"))  # noqa: SIM115
    process = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", __name__, name, str(ledger), str(path), str(upto)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return _Builder(name, process, complaints)


@contextmanager
def _documents(source: Source, path: Path) -> Iterator[Projection]:
    with closing(Database(path, synchronous="NORMAL")) as database:
        yield Documents(database, source)


@contextmanager
def _warehouse(_: Source, path: Path) -> Iterator[Projection]:
    with closing(Warehouse(path)) as warehouse:
        yield warehouse
        warehouse.make_views()


# A new projection at a path, that whoever enters fills.
BUILDS: dict[str, Callable[[Source, Path], AbstractContextManager[Projection]]] = {
    "documents": _documents,
    "warehouse": _warehouse,
}


def main(name: str, ledger: str, path: str, upto: str) -> None:
    """Build one projection from the ledger's file, as long as somebody waits for it."""
    os.nice(NICENESS)
    # Events make no cycles, and looking for some took a fifth of the time (measured 2026-11-30).
    gc.disable()
    with closing(Database(Path(ledger))) as database:
        source = Ledger(SQLiteRecorder(database), clock=lambda: datetime.now(UTC))  # noqa: TID251
        try:
            with BUILDS[name](source, Path(path)) as projection:
                for page in _while_wanted(pages(source, int(upto))):
                    projection.apply(page)
                    sys.stdout.write(f"{projection.position()}\n")
                    sys.stdout.flush()
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
