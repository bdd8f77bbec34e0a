"""Reading the documents of runs, snapshots and branches: as they are, or as they once were."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from ledger.events import Recorded
from ledger.run import TERMINAL, Phase
from ledger.store.sqlite import Database
from projections.documents import branches, catalogue, lineage, milestones, tables
from projections.documents.catalogue import NEWEST
from projections.documents.fold import fold
from projections.documents.lookback import Past
from projections.documents.record import record, summary
from projections.documents.state import State
from projections.documents.tables import Branching, Row, Whole
from projections.source import Source, events_of

OPEN_PHASES = tuple(phase.value for phase in Phase if phase not in TERMINAL)
MOST_BRANCHES = 100  # of one page


class Reading:
    """What any thread may ask of the stored documents."""

    def __init__(self, database: Database, source: Source) -> None:
        """``source``: of the events that lead from a stored document to an earlier moment."""
        self._database = database
        self._source = source

    def row(self, run_id: str) -> Row | None:
        """The run's document as it is stored; None when there is no such run."""
        with self._database.read() as connection:
            return tables.row(connection, run_id)

    def whole(self, run_id: str) -> Whole:
        """The run's document and snapshots as they are stored."""
        with self._of_one_commit() as connection:
            return tables.whole(connection, run_id)

    def branching(self) -> Branching:
        """Every branch and every hold of a snapshot as they are stored, and their position."""
        with self._of_one_commit() as connection:
            return tables.branching(connection)

    @contextmanager
    def _of_one_commit(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the same commit in every statement."""
        with self._database.read() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def get(
        self, run_id: str, attempt: int | None = None, upto: int | None = None
    ) -> dict[str, Any] | None:
        """The record of a run; None when there is no such run.

        Args:
            run_id: the whole id.
            attempt: whose settings it shows; None for the newest.
            upto: as it was when the ledger ended at this position, which the documents have
                reached; None when the run was submitted later.

        Raises:
            UnknownAttemptError: the run has no attempt of this number.
        """
        with self._of_one_commit() as connection:
            row = tables.row(connection, run_id)
            known = catalogue.known(connection, run_id, NEWEST if upto is None else upto)
        state = None if row is None else self._as_of(row, NEWEST if upto is None else upto)
        return None if state is None else record(state, known, attempt)

    def _as_of(self, row: Row, upto: int) -> State | None:
        """The state that a run had at a position; None when it was submitted later."""
        if row.position <= upto:
            return row.state
        if row.submitted > upto:
            return None
        with self._database.read() as connection:
            kept = milestones.newest(connection, row.run_id, upto)
        state, after = (None, 0) if kept is None else (kept.state, kept.position)
        for each in events_of(self._source, row.run_id, upto, after):
            state = self._folded(state, each)
        return state

    def snapshots(self, run_id: str, upto: int | None = None) -> list[dict[str, Any]]:
        """Every committed snapshot of a run, oldest commit first, swept ones too.

        Args:
            run_id: the whole id.
            upto: as they were when the ledger ended at this position, which the documents have
                reached.
        """
        with self._database.read() as connection:
            return catalogue.of_run(connection, run_id, NEWEST if upto is None else upto)

    def snapshot(
        self, prefix: str, limit: int = 10, *, upto: int | None = None
    ) -> list[dict[str, Any]]:
        """Snapshots of any run whose ids begin with ``prefix``, in order of ids.

        ``upto``: those that there were when the ledger ended at this position, as they were then.
        """
        end = NEWEST if upto is None else upto
        with self._database.read() as connection:
            return catalogue.beginning_with(connection, prefix, limit, end)

    def branches(
        self,
        parent: str,
        limit: int = 50,
        before: int | None = None,
        *,
        upto: int | None = None,
    ) -> list[dict[str, Any]]:
        """Branches that were asked for of a run, newest first, at most ``MOST_BRANCHES`` of them.

        Args:
            parent: the run that they begin from.
            limit: branches of one page.
            before: the position of the last branch of the page before.
            upto: as they were when the ledger ended at this position, which the documents have
                reached.
        """
        with self._database.read() as connection:
            return branches.of_parent(
                connection,
                parent,
                before=NEWEST if before is None else before,
                limit=min(limit, MOST_BRANCHES),
                upto=NEWEST if upto is None else upto,
            )

    def branch(self, parent: str, token: str, upto: int | None = None) -> dict[str, Any] | None:
        """The branch of a run that a submission token asked for; None: it asked for none."""
        end = NEWEST if upto is None else upto
        with self._database.read() as connection:
            return branches.of_token(connection, parent, token, upto=end)

    def tree(self, run_id: str, upto: int | None = None) -> dict[str, Any] | None:
        """Every generation of the tree that a run is in, from its root; None: no such run.

        Args:
            run_id: the whole id.
            upto: as it was when the ledger ended at this position, which the documents have
                reached.
        """
        with self._database.read() as connection:
            root = lineage.tree(connection, run_id, NEWEST if upto is None else upto)
        if upto is not None:
            self._make_past(lineage.nodes(root), upto)
        return root

    def ancestry(self, run_id: str, upto: int | None = None) -> list[dict[str, Any]]:
        """Every run from the root of its tree to this one, with what each began from.

        Args:
            run_id: the whole id, of a run that was there at ``upto``.
            upto: as they were when the ledger ended at this position, which the documents have
                reached.
        """
        with self._database.read() as connection:
            line = lineage.ancestry(connection, run_id)
        if upto is not None:
            self._make_past(line, upto)
        return line

    def _make_past(self, runs: Iterable[dict[str, Any]], upto: int) -> None:
        """Put the names and phases that runs had at a position in the place of those of now."""
        for each in runs:
            row = self.row(each["runId"])
            state = None if row is None else self._as_of(row, upto)
            if state is not None:
                each |= {"name": state["name"], "phase": state["phase"]}

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
        """Ids of all runs that anything is stored of, in order."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT run_id FROM document UNION SELECT run_id FROM snapshot"
                " UNION SELECT run_id FROM snapshot_offer ORDER BY run_id"
            ).fetchall()
        return [run_id for (run_id,) in found]

    def list(
        self,
        *,
        phases: Collection[str] | None = None,
        project: str | None = None,
        limit: int = 50,
        before: int | None = None,
        upto: int | None = None,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Summaries, newest submission first, and where the next page goes on (None: nowhere).

        Args:
            phases: only runs in one of these; None for all of them.
            project: only runs of this project.
            limit: runs of one page.
            before: what the page before answered as its end.
            upto: as they were when the ledger ended at this position, which the documents have
                reached.
        """
        end = NEWEST if upto is None else upto
        beyond = NEWEST if before is None else before
        found: list[State] = []
        while len(found) <= limit:
            rows = self._rows(phases, project, beyond=min(beyond, end + 1), end=end, most=limit + 1)
            states = [self._as_of(row, end) for row in rows]
            found += [s for s in states if s and (phases is None or s["phase"] in phases)]
            if len(rows) <= limit:
                break
            beyond = rows[-1].submitted
        page = found[:limit]
        more = page[-1]["submittedPosition"] if page and len(found) > limit else None
        return [summary(state) for state in page], more

    def _rows(
        self,
        phases: Collection[str] | None,
        project: str | None,
        *,
        beyond: int,
        end: int,
        most: int,
    ) -> Sequence[Row]:
        """At most so many runs submitted before ``beyond``, newest first.

        The phase of what went on beyond ``end`` is not known yet, so it is among them anyhow.
        """
        clauses = ["submitted < :beyond"]
        if project is not None:
            clauses.append("project = :project")
        if phases is not None:
            clause = "phase IN (SELECT value FROM json_each(:phases))"
            clauses.append(clause if end == NEWEST else f"(position > :end OR {clause})")
        facts = {
            "beyond": beyond,
            "end": end,
            "project": project,
            "phases": orjson.dumps(list(phases or ())).decode(),
            "most": most,
        }
        with self._database.read() as connection:
            return tables.rows(
                connection,
                f"WHERE {' AND '.join(clauses)} ORDER BY submitted DESC LIMIT :most",
                facts,
            )

    # -- folding -------------------------------------------------------------------------------

    def _folded(self, state: State | None, recorded: Recorded) -> State:
        position, event = recorded
        return fold(
            state, recorded, lambda restores: self._past(event.run_id, position - 1, restores)
        )

    def _past(self, run_id: str, upto: int, restores: Sequence[int]) -> Past:
        """What is known of a run before a restore, from where none of ``restores`` changes it."""
        with self._database.read() as connection:
            kept = milestones.untouched(connection, run_id, upto, restores)
        state, after = (None, 0) if kept is None else (kept.state, kept.position)
        return Past(state, events_of(self._source, run_id, upto, after))
