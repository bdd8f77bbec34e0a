"""A DuckDB file of one's own, kept at the end of a ledger: ``python -m projections.follow_file``.

For somebody who can read the event store of a home. The ledger is opened to read only, whether a
server works on it or not. The file is replaced by a whole copy whenever there is news, as the
server's is, so that it can be opened at any time; what it is made from stands beside it.
"""

import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from urllib.parse import quote

import duckdb
from eventsourcing.persistence import OperationalError

from ledger.reading import Reading
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.errors import InUseError, ProjectionError
from projections.follow import Follower
from projections.warehouse import Warehouse
from projections.warehouse.publish import Publisher

LOOK_SECONDS = 0.2  # between two looks at whether the ledger has grown
CATCH_UP_SECONDS = 2.0  # for what came just before the end
LAST_COPY_SECONDS = 60.0
OURS = ("warehouse.duckdb", "analytics.duckdb")  # of the server, in the home
NOT_FOUND, REFUSED, INTERRUPTED = 3, 4, 130  # docs/exit-codes.md


class ReadOnly(Database):
    """A ledger's database that others write."""

    def script(self, statements: str) -> None:
        """Nothing is created here."""

    def _connect(self) -> sqlite3.Connection:
        address = f"file:{quote(self._path)}?mode=ro"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)


class LedgerFile(Reading):
    """The events in a file, as a projection follows them."""

    def __init__(self, path: Path) -> None:
        self._database = ReadOnly(path)
        super().__init__(SQLiteRecorder(self._database))

    def close(self) -> None:
        """Give the file back."""
        self._database.close()

    def position(self) -> int:
        """The newest position; 0 when nothing was recorded yet."""
        return self._recorder.max_notification_id() or 0

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Wait for an event beyond ``position``; False when none came in ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while self.position() <= position:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True


class Stop:
    """Whether somebody wants us to end, and how."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._came = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._come)

    def wait(self, seconds: float) -> bool:
        """Whether it came, at the latest after so many seconds."""
        return self._came.wait(seconds)

    def _come(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        self._came.set()


def main() -> int:
    """Follow until a signal ends it; the exit status."""
    home, file = map(Path, sys.argv[1:3])
    stop = Stop()
    ledger = home / "ledger.db"
    if not ledger.exists():
        return _refuse(f"there is no ledger in {home}", NOT_FOUND)
    try:
        with _kept(file, home) as warehouse:
            _follow(LedgerFile(ledger), warehouse, file, stop)
    except (ProjectionError, OperationalError, OSError) as error:
        return _refuse(str(error), REFUSED)
    return INTERRUPTED if stop.signal == signal.SIGINT else 0


@contextmanager
def _kept(file: Path, home: Path) -> Iterator[Warehouse]:
    """What the file is made from, which stands beside it from one call to the next.

    Raises:
        ProjectionError: the file is somebody else's.
    """
    if file.parent.resolve() == home.resolve() and file.name in OURS:
        raise ProjectionError(f"{file} is the server's own: name another file")
    if file.exists() and not _is_ours(file):
        raise ProjectionError(f"{file} is another file: name one that is new")
    try:
        warehouse = Warehouse(file.with_name(f"{file.name}.live"))
    except InUseError:
        raise ProjectionError(f"{file} is kept by another process already") from None
    try:
        yield warehouse
    finally:
        warehouse.close()


def _is_ours(file: Path) -> bool:
    """Whether the file was made here."""
    try:
        with duckdb.connect(str(file), read_only=True) as found:
            found.execute("SELECT version FROM schema_version, tracking LIMIT 1")
    except duckdb.Error:
        return False
    return True


def _follow(ledger: LedgerFile, warehouse: Warehouse, file: Path, stop: Stop) -> None:
    if not _is_of(ledger, warehouse):
        raise ProjectionError(f"{file} was made from another ledger: name one that is new")
    follower, publisher = Follower(ledger, warehouse), Publisher(warehouse, file)
    follower.start()
    publisher.start()
    try:
        _tell(ledger, publisher, follower, file, stop)
        follower.wait_for(ledger.position(), CATCH_UP_SECONDS)
        publisher.wait_for(warehouse.position(), LAST_COPY_SECONDS)
    finally:
        follower.stop()
        publisher.stop()
        ledger.close()


def _is_of(ledger: LedgerFile, warehouse: Warehouse) -> bool:
    """Whether the rows are of this ledger: its first event has a name that no other has."""
    if warehouse.position() > ledger.position():
        return False
    with warehouse.read() as cursor:
        found = cursor.execute("SELECT stream FROM event ORDER BY position LIMIT 1").fetchall()
    first = ledger.read(0, 1)
    return not found or found == [(first[0].event.originator_id,)]


def _tell(
    ledger: LedgerFile, publisher: Publisher, follower: Follower, file: Path, stop: Stop
) -> None:
    """Say once that the file is at the end of the ledger, and each fault when it comes."""
    is_told, fault = False, None
    while not stop.wait(LOOK_SECONDS):
        if not is_told and publisher.position() >= ledger.position():
            _say(f"{file} holds everything up to position {publisher.position()} and is kept so")
            is_told = True
        found = follower.failure or publisher.failure
        if found is not None and str(found) != fault:
            _say(f"{type(found).__name__}: {found}")
        fault = None if found is None else str(found)


def _refuse(sentence: str, code: int) -> int:
    _say(f"error: {sentence}")
    return code


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
