"""The tables of documents: their columns, and how whole rows are read and put in place."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import orjson

from projections.documents import branches, catalogue, milestones
from projections.documents.state import State

TABLES = {
    "document": ("run_id", "submitted", "project", "name", "phase", "position", "state"),
    "milestone": milestones.COLUMNS,
    "snapshot": catalogue.STORED,
    "snapshot_past": catalogue.PAST_COLUMNS,
    "snapshot_offer": catalogue.OFFER_COLUMNS,
    "snapshot_holder": catalogue.HOLDER_COLUMNS,
    "branch": branches.COLUMNS,
}  # with the columns that are stored
TRACKING = "document_tracking"


class Row(NamedTuple):
    """A document as the table keeps it."""

    run_id: str
    submitted: int
    project: str
    name: str | None
    phase: str
    position: int
    state: State

    @classmethod
    def of(cls, state: State) -> Self:
        """The row of a state, with the columns that lists look for."""
        plan = state["plan"]
        labels = (plan["project"], state["name"])
        places = (state["phase"], state["position"])
        return cls(state["runId"], state["submittedPosition"], *labels, *places, state)

    def stored(self) -> tuple[str, int, str, str | None, str, int, bytes]:
        """Values for the table, in the order of its columns."""
        return (*self[:-1], orjson.dumps(self.state))


class Whole(NamedTuple):
    """Everything that is stored of one run, as of one position."""

    row: Row | None
    snapshots: list[dict[str, Any]]  # in the order in which they were committed
    past: list[dict[str, Any]]  # what they were before, oldest first
    offers: list[dict[str, Any]]  # that wait to be decided, oldest first
    milestones: dict[int, str]  # their digests by their positions


class Branching(NamedTuple):
    """What runs have to do with one another, as of one position."""

    position: int
    holders: list[dict[str, Any]]
    branches: list[dict[str, Any]]


def row(connection: sqlite3.Connection, run_id: str) -> Row | None:
    """The document of a run as it is stored."""
    found = connection.execute("SELECT * FROM document WHERE run_id = ?", (run_id,)).fetchone()
    return None if found is None else _row(found)


def rows(connection: sqlite3.Connection, which: str, values: Mapping[str, Any]) -> list[Row]:
    """The documents that a clause is true of, as they are stored."""
    found = connection.execute(f"SELECT * FROM document {which}", values).fetchall()  # noqa: S608 (ours)
    return [_row(each) for each in found]


def _row(stored: Sequence[Any]) -> Row:
    return Row._make([*stored[:-1], orjson.loads(stored[-1])])


def whole(connection: sqlite3.Connection, run_id: str) -> Whole:
    """Everything that is stored of a run; in a transaction it is of one commit."""
    which = "WHERE run_id = ? ORDER BY position"
    return Whole(
        row(connection, run_id),
        _stored(connection, "snapshot", which, run_id),
        _stored(connection, "snapshot_past", f"{which}, snapshot_id", run_id),
        _stored(connection, "snapshot_offer", which, run_id),
        milestones.digests(connection, run_id),
    )


def branching(connection: sqlite3.Connection) -> Branching:
    """Every branch and hold; in a transaction they are of one commit."""
    ((position,),) = connection.execute("SELECT position FROM document_tracking")
    return Branching(
        int(position), _stored(connection, "snapshot_holder"), _stored(connection, "branch")
    )


def _stored(
    connection: sqlite3.Connection, table: str, which: str = "", *values: Any
) -> list[dict[str, Any]]:
    columns = TABLES[table]
    found = connection.execute(f"SELECT {', '.join(columns)} FROM {table} {which}", values)  # noqa: S608 (ours)
    return [dict(zip(columns, each, strict=True)) for each in found.fetchall()]


def copy(theirs: sqlite3.Connection, ours: sqlite3.Connection) -> None:
    """Put the rows of all their tables in the place of ours."""
    for table, columns in TABLES.items():
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        rows = theirs.execute(f"SELECT {names} FROM {table}").fetchall()  # noqa: S608 (ours)
        ours.execute(f"DELETE FROM {table}")  # noqa: S608 (ours)
        ours.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", rows)  # noqa: S608 (ours)
