"""A server's home, which one process owns at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEDGER = "ledger.db"
WAREHOUSE = "warehouse.duckdb"
PUBLISHED = "analytics.duckdb"
EXCHANGE = "exchange"  # what is being packed for somebody; of no use to the next server


@contextmanager
def own(home: Path) -> Iterator[bool]:
    """Hold the home's lock, if nobody else does."""
    with (home / "server.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
