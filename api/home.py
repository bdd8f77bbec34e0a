"""A server's home, which one process owns at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LEDGER = "ledger.db"
WAREHOUSE = "warehouse.duckdb"
PUBLISHED = "analytics.duckdb"
EXCHANGE = "exchange"  # what is being packed for somebody; of no use to the next server


@contextmanager
def own(home: Path) -> Iterator[str]:
    """Hold the home and its ledger; empty, or where somebody else is at work.

    ``ledger.db`` may be a link to where there is room. Two homes whose links lead to one ledger
    would each dispatch its runs, and neither would hear of tokens that the other one revokes.
    """
    ledger = (home / LEDGER).resolve()
    with (
        (home / "server.lock").open("w") as of_home,
        ledger.with_suffix(".lock").open("w") as of_ledger,
    ):
        if not _held(of_home):
            yield f"in {home}"
        elif not _held(of_ledger):
            yield f"on {ledger}"
        else:
            yield ""


def _held(lock: IO[str]) -> bool:
    """Whether a lock is ours now; it is until the file is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
