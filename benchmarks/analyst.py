"""An analyst who reads the published copy in a loop: ``python -m benchmarks.analyst COPY SECONDS``.

Each turn opens the copy as any DuckDB client does, asks, and closes it. At the end it says how
often, and what went wrong, as JSON.
"""

import json
import sys
import time

import duckdb

QUERIES = (
    "SELECT run_id, count(*), avg(loss), max(step) FROM metrics GROUP BY run_id",
    "SELECT step // 100, quantile_cont(grad_norm, 0.99) FROM metrics GROUP BY 1 ORDER BY 1",
    "SELECT phase, count(*), sum(device_seconds) FROM runs GROUP BY phase",
)


def main(copy: str, seconds: float) -> None:
    """Read for so long."""
    turns, failures = 0, []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        turns += 1
        try:
            _read(copy)
        except duckdb.Error as error:
            failures.append(str(error))
    print(json.dumps({"turns": turns, "failures": failures}))


def _read(copy: str) -> None:
    """Open the copy, and ask everything."""
    with duckdb.connect(copy, read_only=True) as connection:
        for query in QUERIES:
            connection.execute(query).fetchall()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
