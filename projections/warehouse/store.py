"""The warehouse file: owned by one process, written by one thread, read through fresh cursors."""

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Literal

import duckdb

from ledger.events import Recorded
from ledger.run import ENDS
from projections.errors import InUseError, ProjectionError
from projections.source import Source, catch_up
from projections.warehouse import columns
from projections.warehouse.apply import rows
from projections.warehouse.clock import STORED, Clock, Time

VERSION = 7  # of the schema and of what apply.py makes: another number starts over
_CONFIG: dict[str, Any] = {
    "storage_compatibility_version": "v1.5.0",  # so that 1.5 clients open published copies
    "memory_limit": "25%",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}


class Warehouse:
    """Series of all runs. One thread applies events; any thread reads.

    The file is disposable: a damaged one is moved aside, and its position is then 0, so that
    whoever follows the ledger fills it again. Nothing else in this process may open the file, since
    closing it would give up the lock that keeps strangers out.
    """

    name = "warehouse"

    def __init__(self, path: Path | Literal[":memory:"]) -> None:
        """Open the file at ``path``, or make it.

        Raises:
            InUseError: another process owns it.
        """
        self._path = path
        self.newest_end = 0  # position of the newest end of a run that this process applied
        self.files = 1  # that this process has had at the path: another number, another file
        self._applying = threading.Lock()
        self._gate = threading.Condition()
        self._readers = 0
        self._swapping = False
        self._died = False  # the last batch killed the instance
        self._position = 0
        self._clock = Clock(self._stored_time)
        self._lock = _own(path) if isinstance(path, Path) else None
        try:
            self._open()
        except BaseException:
            self._give_up()
            raise

    # -- applying ------------------------------------------------------------------------------

    def position(self) -> int:
        """Of the newest event that the warehouse holds."""
        return self._position

    def apply(self, batch: Sequence[Recorded]) -> None:
        """Append the rows of events beyond the position; what was applied before adds nothing."""
        with self._applying:
            new = [each for each in batch if each.position > self._position]
            if not new:
                return
            try:
                self._append(self._rows(new), new[-1].position)
            except BaseException as error:
                self._clock.forget()  # it has seen what is not stored
                if isinstance(error, (duckdb.FatalException, duckdb.ConnectionException)):
                    self._revive()
                raise
            self._position = new[-1].position
            ends = (each.position for each in reversed(new) if type(each.event) in ENDS)
            self.newest_end = next(ends, self.newest_end)
            self._died = False
            self._clock.trim()

    def _rows(self, new: Sequence[Recorded]) -> dict[str, list[tuple[Any, ...]]]:
        """What each table gets."""
        appended: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for each in new:
            for row in rows(each, self._clock.see(each.event)):
                appended[row.table].append(row.values)
        return appended

    def _stored_time(self, run_id: str) -> Time:
        """How far the time of a run has come with what is stored."""
        found = self._writer.execute(STORED, {"run": run_id}).fetchall()
        return Time(*found[0])

    def _append(self, appended: dict[str, list[tuple[Any, ...]]], position: int) -> None:
        """Rows and position in one transaction."""
        writer = self._writer
        writer.execute("BEGIN")
        try:
            for table, values in appended.items():
                if table in columns.TABLES:
                    columns.append(writer, table, values)
                    continue
                with writer.appender(table) as appender:
                    appender.append_rows(values)
            writer.execute("INSERT INTO tracking VALUES (?)", [position])
            writer.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # a failed commit, or a dead instance, left none to end
                writer.execute("ROLLBACK")
            raise

    def make_views(self) -> None:
        """Make what analysts read, if it is not there.

        It takes 0.2 s (measured 2026-11-29): long for a server that starts, and for copies only.
        """
        with self._applying:
            if self._one("SELECT count(*) FROM duckdb_views() WHERE view_name = 'runs'") == (0,):
                self._writer.execute(f"BEGIN; {_sql('views.sql')}; COMMIT")

    @contextmanager
    def still(self) -> Iterator[tuple[Path, int]]:
        """The file with everything written out, and its position; nothing changes it meanwhile.

        Raises:
            duckdb.Error: it cannot be written out just now.
        """
        if not isinstance(self._path, Path):
            raise ProjectionError("a warehouse in memory has no file")
        self.make_views()
        with self._applying:
            self._writer.execute("CHECKPOINT")
            yield self._path, self._position

    # -- reading -------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that sees the last commit. Fetch everything: an open result holds memory."""
        with self._gate:
            self._gate.wait_for(lambda: not self._swapping)
            self._readers += 1
        try:
            with self._root.cursor() as cursor:
                yield cursor
        finally:
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    # -- the file ------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for readers, write everything to the file and give it up."""
        with self._applying, self._alone():
            self._disconnect()
            self._give_up()

    def replace(self, fresh: "Warehouse", source: Source) -> None:
        """Put ``fresh``, made of the same ledger in another file, in the place of this one."""
        if not isinstance(self._path, Path) or not isinstance(fresh._path, Path):
            raise ProjectionError("a warehouse in memory has no file to replace")
        with self._applying:
            catch_up(fresh, source, self._position)
            fresh.close()
            with self._alone():
                self._disconnect()
                try:
                    _wal(self._path).unlink(missing_ok=True)
                    fresh._path.replace(self._path)
                finally:
                    self._open()
            self.files += 1
            self.newest_end = min(self.newest_end, self._position)
            self._clock.forget()  # what it knows was read from the file that is gone

    def _revive(self) -> None:
        """Open a dead instance's file again; when it dies twice in a row, the file is at fault."""
        with self._alone():
            self._disconnect()
            if self._died:
                self._set_aside()
            self._died = True
            self._open()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No reader holds a cursor inside, or else DuckDB would go on with the old instance."""
        with self._gate:
            self._swapping = True
            self._gate.wait_for(lambda: self._readers == 0)
            try:
                yield
            finally:
                self._swapping = False
                self._gate.notify_all()

    def _give_up(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _disconnect(self) -> None:
        self._writer.close()
        self._root.close()

    def _open(self) -> None:
        """Connect, with what the file holds or with new tables."""
        try:
            self._connect()
        except duckdb.Error as error:
            if "Could not set lock" in str(error):
                raise InUseError(str(error)) from None
            self._set_aside()
            self._connect()

    def _connect(self) -> None:
        self._root = duckdb.connect(str(self._path), config=_CONFIG)
        try:
            self._writer = self._root.cursor()
            if self._version() is None:
                self._create()
            elif self._version() != VERSION:
                raise duckdb.CatalogException(f"the warehouse has schema {self._version()}")
            self._position = self._one("SELECT coalesce(max(position), 0) FROM tracking")[0]
        except duckdb.Error:
            self._root.close()
            raise

    def _version(self) -> int | None:
        """Of the schema in the file; None when the file is new."""
        (tables,) = self._one("SELECT count(*) FROM duckdb_tables() WHERE NOT internal")
        return self._one("SELECT version FROM schema_version")[0] if tables else None

    def _create(self) -> None:
        self._writer.execute(f"BEGIN; {_sql('schema.sql')}")
        self._writer.execute("INSERT INTO schema_version VALUES (?)", [VERSION])
        self._writer.execute("COMMIT")

    def _one(self, query: str) -> tuple[Any, ...]:
        return self._writer.execute(query).fetchall()[0]

    def _set_aside(self) -> None:
        """Keep a file that cannot be used for a look at it; the next one replaces it."""
        if not isinstance(self._path, Path):
            return
        for file in (self._path, _wal(self._path)):
            if file.exists():
                file.replace(file.with_name(f"{file.name}.bad"))


def _own(path: Path) -> IO[str]:
    """The lock of the file at ``path``, held until it is closed.

    Raises:
        InUseError: another process holds it.
    """
    lock = path.with_suffix(".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise InUseError(f"{path} is open in process {owner}") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _sql(name: str) -> str:
    return files("projections.warehouse").joinpath(name).read_text("utf-8")
