"""How fast the events of a ledger are checked: chains, places, seals."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from api.service import utc_now
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50
from ledger import audit
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder

ROUNDS = 7


def measure(place: Place) -> Result:
    """Check the ledger of the long run, in turns with a plain read of all its events."""
    path = place.long.home.product.home / "ledger.db"
    database = Database(path)
    try:
        ledger = Ledger(SQLiteRecorder(database), clock=utc_now)
        pairs = [
            (_rate(lambda: audit.verify(ledger).events), _rate(lambda: read(path)))
            for _ in range(ROUNDS + 1)
        ][1:]
    finally:
        database.close()
    ours, floor = (p50(each) for each in zip(*pairs, strict=True))
    return Result(
        [Figure("events checked in a second", ours, "events/s", floor, least=100_000.0)],
        "floor: a cursor over the same rows; the replay and the comparison come after this",
    )


def read(path: Path) -> int:
    """Read all events of a ledger plainly; how many there are."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT stream, version, topic, state, position FROM stored_event ORDER BY position"
        )
        return sum(1 for _ in rows)


def _rate(count: Callable[[], int]) -> float:
    began = time.perf_counter()
    return count() / (time.perf_counter() - began)
