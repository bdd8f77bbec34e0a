"""Milestones: documents as they once were, so that an earlier moment need not be folded from zero.

A document that is to be read as of a position is folded from the newest milestone before it. One is
kept of a run whenever so many of its events, or so many of anybody's, came since the one before:
the first bounds what is folded, the second what is read. After a restore one is kept as well, since
folding that reads the run again. Which there are depends on positions alone, never on batches.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from ledger.events import Event, Restored
from projections.documents.change import Change
from projections.documents.lookback import is_untouched
from projections.documents.state import State

# Folding takes about 50 µs an event and passing over one 1 µs (measured 2026-11-30), so an earlier
# document takes 0.03 s; milestones take about 1 % of the room that their events take.
EVENTS = 500  # of the run, between two milestones
POSITIONS = 20_000  # of the ledger, likewise
FAST = 1  # for zlib: a state is 3 to 20 kB of JSON, and mostly the same words
COLUMNS = ("run_id", "position", "state")


class Kept(NamedTuple):
    """A document as it was at a position."""

    position: int
    state: State


def before(state: State, position: int) -> Change | None:
    """What is kept of ``state`` before the event at ``position`` is folded; mostly nothing."""
    since = state["milestone"]
    if since["events"] < EVENTS and position - since["position"] <= POSITIONS:
        return None
    return _keep(state, position - 1)


def after(state: State, event: Event, position: int) -> Change | None:
    """What is kept of ``state`` now that the event at ``position`` is folded; mostly nothing."""
    state["milestone"]["events"] += 1
    if not isinstance(event, Restored) or position - state["submittedPosition"] < EVENTS:
        return None
    return _keep(state, position)


def _keep(state: State, position: int) -> Change:
    state["milestone"] = {"position": position, "events": 0}
    facts = {
        "run": state["runId"],
        "position": position,
        "state": zlib.compress(orjson.dumps(state), FAST),
    }
    return Change("INSERT INTO milestone VALUES (:run, :position, :state)", facts)


def newest(connection: sqlite3.Connection, run_id: str, upto: int) -> Kept | None:
    """The newest milestone of a run that is not beyond a position; None where there is none."""
    found = connection.execute(
        "SELECT position, state FROM milestone WHERE run_id = ? AND position <= ?"
        " ORDER BY position DESC LIMIT 1",
        (run_id, upto),
    ).fetchone()
    return None if found is None else _read(*found)


def untouched(
    connection: sqlite3.Connection, run_id: str, upto: int, restores: Sequence[int]
) -> Kept | None:
    """The newest milestone to a position whose rows ``restores`` left alone, if there is one.

    A restore mostly goes back to a snapshot, so it is found within a few.
    """
    found = connection.execute(
        "SELECT position, state FROM milestone WHERE run_id = ? AND position <= ?"
        " ORDER BY position DESC",
        (run_id, upto),
    )
    every = (_read(*each) for each in found)
    return next((each for each in every if is_untouched(each.state, restores)), None)


def digests(connection: sqlite3.Connection, run_id: str) -> dict[int, str]:
    """What tells the milestones of a run from others, by position: there may be thousands."""
    found = connection.execute(
        "SELECT position, state FROM milestone WHERE run_id = ? ORDER BY position", (run_id,)
    )
    return {position: _digest(_read(position, state).state) for position, state in found}


def _digest(state: State) -> str:
    return hashlib.sha256(orjson.dumps(state, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _read(position: int, state: bytes) -> Kept:
    return Kept(position, orjson.loads(zlib.decompress(state)))
