"""Run documents in the event database: rows and the position they reached, in one transaction."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from ledger.events import Event, Recorded
from ledger.store.sqlite import Database
from projections.documents import branches, catalogue, milestones, tables
from projections.documents.change import Change
from projections.documents.reading import Reading
from projections.documents.state import State
from projections.documents.tables import TABLES, TRACKING, Row
from projections.errors import ProjectionError
from projections.source import Source, catch_up

VERSION = 8  # of what is made of events: another number rebuilds every document
REMEMBERED = 256  # states that are kept between batches


class Documents(Reading):
    """A document of each run, all snapshots and branches. One thread applies; any thread reads."""

    name = "documents"

    def __init__(self, database: Database, source: Source) -> None:
        super().__init__(database, source)
        self._applying = threading.Lock()
        self._states: OrderedDict[str, State] = OrderedDict()  # least recently folded first
        self._position = self._start()

    def position(self) -> int:
        """Of the newest event that the documents hold."""
        return self._position

    def apply(self, batch: Sequence[Recorded]) -> None:
        """Fold the events beyond the position; what was applied before changes nothing.

        The database is locked only to write: folding happens before.
        """
        with self._applying:
            new = [each for each in batch if each.position > self._position]
            if not new:
                return
            try:
                touched, changes = self._fold(new)
                self._write(touched, changes, new[-1].position)
            except BaseException:
                self._states.clear()  # they may be ahead of what is stored
                raise
            self._position = new[-1].position
            self._forget()

    def replace(self, fresh: "Documents", source: Source) -> None:
        """Take over what ``fresh`` made of the same ledger elsewhere, in one transaction."""
        with self._applying:
            catch_up(fresh, source, self._position)
            self._database.script(_schema())  # a table may be what went wrong
            with fresh._database.read() as theirs, self._database.write() as connection:
                tables.copy(theirs, connection)
                connection.execute("UPDATE document_tracking SET position = ?", (fresh.position(),))
            self._states.clear()
            self._position = fresh.position()

    def _start(self) -> int:
        """The stored position; 0, with new tables, when another version made the old ones."""
        schema = _schema()
        if self._version() not in (None, VERSION):
            old = "".join(f"DROP TABLE IF EXISTS {each}; " for each in (*TABLES, TRACKING))
            schema = old + schema
        self._database.script(schema)
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO document_tracking VALUES (1, ?, 0)", (VERSION,)
            )
            ((position,),) = connection.execute("SELECT position FROM document_tracking")
        return int(position)

    def _version(self) -> int | None:
        """Of what made the stored documents; None when there are no tables yet."""
        with self._database.read() as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE name = 'document_tracking'"
            ).fetchall()
            if not tables:
                return None
            found = connection.execute("SELECT version FROM document_tracking").fetchone()
        return None if found is None else int(found[0])

    def _fold(self, new: Sequence[Recorded]) -> tuple[dict[str, State], list[Change]]:
        """The states of every run that ``new`` tells of, and what changes beside them, in order."""
        touched: dict[str, State] = {}
        changes: list[Change | None] = []
        for each in new:
            position, event = each
            if _tells_of_run(event):
                run_id = event.run_id
                state = touched.get(run_id) or self._state(run_id)
                if state is not None:
                    changes.append(milestones.before(state, position))
                touched[run_id] = state = self._folded(state, each)
                changes.append(milestones.after(state, event, position))
            changes += _changes(each)
        return touched, [change for change in changes if change is not None]

    def _state(self, run_id: str) -> State | None:
        remembered = self._states.pop(run_id, None)
        if remembered is not None:
            return remembered
        row = self.row(run_id)
        return None if row is None else row.state

    def _write(
        self, touched: Mapping[str, State], changes: Iterable[Change], position: int
    ) -> None:
        with self._database.write() as connection:
            connection.executemany(
                "INSERT INTO document (run_id, submitted, project, name, phase, position, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE"
                " SET name = excluded.name, phase = excluded.phase, position = excluded.position,"
                " state = excluded.state",
                [Row.of(state).stored() for state in touched.values()],
            )
            for change in changes:
                connection.execute(*change)
            moved = connection.execute(
                "UPDATE document_tracking SET position = ? WHERE position = ? AND version = ?",
                (position, self._position, VERSION),
            )
            if moved.rowcount != 1:
                raise ProjectionError(f"documents are no longer at position {self._position}")
        self._states.update(touched)

    def _forget(self) -> None:
        while len(self._states) > REMEMBERED:
            self._states.popitem(last=False)


def _schema() -> str:
    """What creates each table that is absent."""
    return files("projections.documents").joinpath("schema.sql").read_text("utf-8")


def _tells_of_run(event: Event) -> bool:
    return event.originator_id.startswith("run/")


def _changes(recorded: Recorded) -> Iterable[Change]:
    position, event = recorded
    for changes in (catalogue.changes, branches.changes):
        if type(event) in changes.registry:  # most events are steps, which change neither
            return changes(event, position)
    return ()
