"""Events in a SQLite file: one writer at a time, readers beside it, everything synced."""

import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from eventsourcing.persistence import (
    IntegrityError,
    Notification,
    OperationalError,
    StoredEvent,
)

from ledger.store.recorder import LedgerRecorder, Stored

READERS = 8  # connections; a further reader waits for one
LIFE_TOPICS = frozenset(
    {"run.submitted.v1", "run.completed.v1", "run.failed.v1", "run.cancelled.v1"}
)  # the topics of the index stored_event_life
WRITE_WAIT_SECONDS = 10.0
PAGE_BYTES = 16 * 2**20  # of events that are read at once: those with rollouts are large
FETCHED = 100  # rows at a time, since only then their size is known


class Database:
    """A SQLite database with one writer connection and its own readers.

    Readers never wait for a writer (they read the last commit), and closing waits for both: a
    connection that is closed under a reader takes the whole process down (measured 2026-11).
    With ``:memory:`` there is one connection, and readers do wait.
    """

    def __init__(
        self, path: Path | Literal[":memory:"], *, synchronous: Literal["FULL", "NORMAL"] = "FULL"
    ) -> None:
        self.path = path if isinstance(path, Path) else None  # None: in memory
        self._path = str(path)
        self._synchronous = synchronous
        self._closed = False
        self._lock = threading.RLock()
        self._writer = self._connect()
        self._readers: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        for _ in range(READERS):
            self._readers.put(None)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction; it is committed at the end, or rolled back if anything was raised.

        Raises:
            IntegrityError: a constraint or trigger refused it.
            OperationalError: the file is locked by a stranger, full or unreadable.
        """
        with self._lock:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                self._writer.execute("COMMIT")
            except sqlite3.IntegrityError as error:
                self._roll_back()
                raise IntegrityError(str(error)) from error
            except sqlite3.Error as error:
                self._roll_back()
                raise OperationalError(f"{self._path}: {error}") from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the last commit.

        Raises:
            OperationalError: the file is unreadable, or closed.
        """
        try:
            if self._path == ":memory:":
                with self._lock:
                    yield self._writer
                return
            with self._reader() as connection:
                yield connection
        except sqlite3.Error as error:
            raise OperationalError(f"{self._path}: {error}") from error

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        connection = self._readers.get()
        try:
            if self._closed:
                raise OperationalError(f"{self._path} is closed")
            connection = connection or self._connect()
            yield connection
        finally:
            self._readers.put(connection)

    def script(self, statements: str) -> None:
        """Run statements that create what is absent."""
        with self._lock:
            self._writer.executescript(statements)

    def copy_to(self, path: Path) -> None:
        """Make a copy as of one commit in a new file; writers go on meanwhile.

        Raises:
            OperationalError: a file is unreadable, or the disk is full.
        """
        with closing(sqlite3.connect(path)) as target, self.read() as connection:
            connection.backup(target)

    def close(self) -> None:
        """Wait for every reader and the writer, then close the file; later readers are refused."""
        self._closed = True
        connections = [self._readers.get() for _ in range(READERS)]
        for connection in connections:
            if connection is not None:
                connection.close()
            self._readers.put(None)
        with self._lock:
            self._writer.close()

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # what is being raised says more
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=WRITE_WAIT_SECONDS,
            isolation_level=None,  # transactions are begun by hand
            check_same_thread=False,  # each connection is used by one thread at a time
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        return connection


class SQLiteRecorder(LedgerRecorder):
    """The ledger's events in a SQLite database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.script(files("ledger.store").joinpath("schema.sql").read_text("utf-8"))

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        """Store events of any streams in one transaction, and answer their positions.

        Raises:
            IntegrityError: a version exists already, or does not follow its predecessor.
        """
        with self._database.write() as connection:
            (end,) = connection.execute(
                "SELECT coalesce(max(position), 0) FROM stored_event"
            ).fetchone()
            connection.executemany(
                "INSERT INTO stored_event (position, stream, version, topic, state)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    (end + n, str(e.originator_id), e.originator_version, e.topic, e.state)
                    for n, e in enumerate(stored_events, start=1)
                ),
            )
        return range(end + 1, end + len(stored_events) + 1)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Events of one stream between two versions."""
        statement = (
            "SELECT stream, version, topic, state FROM stored_event"
            " WHERE stream = ? AND version > ? AND version <= ?"
        )
        statement += " ORDER BY version DESC LIMIT ?" if desc else " ORDER BY version LIMIT ?"
        with self._database.read() as connection:
            rows = connection.execute(
                statement,
                (
                    str(originator_id),
                    0 if gt is None else gt,
                    2**62 if lte is None else lte,
                    -1 if limit is None else limit,
                ),
            ).fetchall()
        return [StoredEvent(*row) for row in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Events of the whole ledger from a position on, in order."""
        first = (start or 0) + (0 if inclusive_of_start else 1)
        statement = (
            "SELECT stream, version, topic, state, position FROM stored_event"
            " WHERE position >= ? AND position <= ?"
        )
        parameters: list[Any] = [first, 2**62 if stop is None else stop]
        if topics:
            statement += f" AND topic IN ({','.join('?' * len(topics))})"
            parameters += topics
            if LIFE_TOPICS.issuperset(topics):  # the index serves only a query that says its terms
                literals = ",".join(f"'{topic}'" for topic in sorted(LIFE_TOPICS))
                statement += f" AND topic IN ({literals})"
        with self._database.read() as connection:
            rows = connection.execute(
                f"{statement} ORDER BY position LIMIT ?", [*parameters, limit]
            ).fetchall()
        return [Notification(*row) for row in rows]

    def select_family(
        self, stream: str, *, gt: int, limit: int, lte: int | None = None
    ) -> Sequence[Notification]:
        """Events of ``stream`` and of the streams below it after position ``gt``, in order.

        The unary plus keeps the stream's index out of the plan: the table's own order is wanted,
        and a follower at the end of the ledger then reads next to nothing.
        """
        with self._database.read() as connection:
            rows = _page(
                connection,
                "SELECT stream, version, topic, state, position FROM stored_event"
                " WHERE position > max(?, coalesce("
                "   (SELECT position - 1 FROM stored_event WHERE stream = ? AND version = 1), 0))"
                " AND position <= ? AND (+stream = ? OR (+stream >= ? AND +stream < ?))"
                " ORDER BY position LIMIT ?",
                (
                    *(gt, stream, 2**62 if lte is None else lte),
                    *(stream, f"{stream}/", f"{stream}0", limit),
                ),
            )
        return [Notification(*row) for row in rows]

    def read_stored(self, *, after: int, limit: int) -> list[Stored]:
        """Events of the whole ledger after a position, in order."""
        with self._database.read() as connection:
            rows = _page(
                connection,
                "SELECT stream, version, topic, state, position FROM stored_event"
                " WHERE position > ? ORDER BY position LIMIT ?",
                (after, limit),
            )
        return list(map(Stored._make, rows))

    def read_stream(self, stream: str, *, after: int, limit: int) -> list[Stored]:
        """Events of ``stream`` alone after a version, in order."""
        with self._database.read() as connection:
            rows = _page(
                connection,
                "SELECT stream, version, topic, state, position FROM stored_event"
                " WHERE stream = ? AND version > ? ORDER BY version LIMIT ?",
                (stream, after, limit),
            )
        return list(map(Stored._make, rows))

    def max_notification_id(self) -> int | None:
        """The position of the newest event; None while there is none."""
        with self._database.read() as connection:
            (end,) = connection.execute("SELECT max(position) FROM stored_event").fetchone()
        return None if end is None else int(end)


def _page(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> list[Any]:
    """The rows that a statement finds, with the state in the fourth column, but not for ever.

    It ends with the rows that make it ``PAGE_BYTES``.
    """
    rows: list[Any] = []
    size = 0
    with closing(connection.execute(statement, parameters)) as found:
        while size < PAGE_BYTES and (fetched := found.fetchmany(FETCHED)):
            rows += fetched
            size += sum(len(row[3]) for row in fetched)
    return rows
