"""Run documents in the event database: rows and the position they reached, in one transaction."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, Self

import orjson

from ledger.events import Event, Recorded
from ledger.run import TERMINAL, Phase
from ledger.store.sqlite import Database
from projections.documents.fold import State, fold
from projections.documents.record import record, summary
from projections.errors import ProjectionError
from projections.source import Source, catch_up, events_of

VERSION = 1  # of what the fold makes: another number rebuilds every document
NEWEST = 2**63 - 1  # beyond every position
REMEMBERED = 256  # states that are kept between batches
OPEN_PHASES = tuple(phase.value for phase in Phase if phase not in TERMINAL)


class Row(NamedTuple):
    """A document as the table keeps it."""

    run_id: str
    submitted: int
    project: str
    phase: str
    state: State

    @classmethod
    def of(cls, state: State) -> Self:
        """The row of a state, with the columns that lists look for."""
        project = state["plan"]["project"]
        return cls(state["runId"], state["submittedPosition"], project, state["phase"], state)

    def stored(self) -> tuple[str, int, str, str, bytes]:
        """Values for the table, in the order of its columns."""
        return (*self[:-1], orjson.dumps(self.state))


class Documents:
    """One document per run. One thread applies events; any thread reads."""

    name = "documents"

    def __init__(self, database: Database, source: Source) -> None:
        self._database = database
        self._source = source
        self._applying = threading.Lock()
        self._states: OrderedDict[str, State] = OrderedDict()  # least recently folded first
        self._position = self._start()

    # -- applying ------------------------------------------------------------------------------

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
                touched = self._fold(new)
                self._write(touched, new[-1].position)
            except BaseException:
                self._states.clear()  # they may be ahead of what is stored
                raise
            self._position = new[-1].position
            self._forget()

    def replace(self, fresh: "Documents", source: Source) -> None:
        """Take over what ``fresh`` made of the same ledger elsewhere, in one transaction."""
        with self._applying:
            catch_up(fresh, source, self._position)
            with fresh._database.read() as theirs:
                rows = theirs.execute("SELECT * FROM document").fetchall()
            with self._database.write() as connection:
                connection.execute("DELETE FROM document")
                connection.executemany("INSERT INTO document VALUES (?, ?, ?, ?, ?)", rows)
                connection.execute("UPDATE document_tracking SET position = ?", (fresh.position(),))
            self._states.clear()
            self._position = fresh.position()

    def _start(self) -> int:
        """The stored position; 0, with new tables, when another version made the old ones."""
        schema = files("projections.documents").joinpath("schema.sql").read_text("utf-8")
        if self._version() not in (None, VERSION):
            schema = f"DROP TABLE document; DROP TABLE document_tracking; {schema}"
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

    def _fold(self, new: Sequence[Recorded]) -> dict[str, State]:
        """The states of every run that ``new`` tells of."""
        touched: dict[str, State] = {}
        for each in new:
            if not _tells_of_run(each.event):
                continue
            run_id = each.event.run_id
            state = touched.get(run_id) or self._state(run_id)
            touched[run_id] = fold(state, each, lambda each=each: self._earlier(each))  # type: ignore[misc]
        return touched

    def _earlier(self, recorded: Recorded) -> Iterable[Recorded]:
        return events_of(self._source, recorded.event.run_id, recorded.position - 1)

    def _state(self, run_id: str) -> State | None:
        remembered = self._states.pop(run_id, None)
        if remembered is not None:
            return remembered
        row = self.row(run_id)
        return None if row is None else row.state

    def _write(self, touched: Mapping[str, State], position: int) -> None:
        with self._database.write() as connection:
            connection.executemany(
                "INSERT INTO document (run_id, submitted, project, phase, state)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE"
                " SET phase = excluded.phase, state = excluded.state",
                [Row.of(state).stored() for state in touched.values()],
            )
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

    # -- reading -------------------------------------------------------------------------------

    def row(self, run_id: str) -> "Row | None":
        """The run's document as it is stored; None when there is no such run."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT * FROM document WHERE run_id = ?", (run_id,)
            ).fetchone()
        return None if found is None else Row._make([*found[:-1], orjson.loads(found[-1])])

    def get(self, run_id: str) -> dict[str, Any] | None:
        """The record of a run; None when there is no such run."""
        row = self.row(run_id)
        return None if row is None else record(row.state)

    def find(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids that begin with ``prefix``, in order."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT run_id FROM document WHERE run_id >= ? AND run_id < ?"
                " ORDER BY run_id LIMIT ?",
                (prefix, prefix + "\U0010ffff", limit),
            ).fetchall()
        return [run_id for (run_id,) in found]

    def open_runs(self) -> list[str]:
        """Ids of the runs that have not ended, oldest first."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT run_id FROM document WHERE phase IN (SELECT value FROM json_each(?))"
                " ORDER BY submitted",
                (orjson.dumps(OPEN_PHASES).decode(),),
            ).fetchall()
        return [run_id for (run_id,) in found]

    def runs(self) -> list[str]:
        """Ids of all runs, oldest first."""
        with self._database.read() as connection:
            found = connection.execute("SELECT run_id FROM document ORDER BY submitted").fetchall()
        return [run_id for (run_id,) in found]

    def list(
        self,
        *,
        phases: Collection[str] | None = None,
        project: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Summaries, newest submission first, and where the next page goes on (None: nowhere).

        Args:
            phases: only runs in one of these; None for all of them.
            project: only runs of this project.
            limit: runs of one page.
            before: what the page before answered as its end.
        """
        clauses = ["submitted < :before"]
        if project is not None:
            clauses.append("project = :project")
        if phases is not None:
            clauses.append("phase IN (SELECT value FROM json_each(:phases))")
        facts = {
            "before": NEWEST if before is None else before,
            "project": project,
            "phases": orjson.dumps(list(phases or ())).decode(),
            "limit": limit + 1,
        }
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT submitted, state FROM document WHERE {' AND '.join(clauses)}"  # noqa: S608
                " ORDER BY submitted DESC LIMIT :limit",
                facts,
            ).fetchall()
        page = found[:limit]
        more = page[-1][0] if page and len(found) > limit else None
        return [summary(orjson.loads(state)) for _, state in page], more


def _tells_of_run(event: Event) -> bool:
    return event.originator_id.startswith("run/")
