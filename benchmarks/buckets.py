"""How soon a chart has a series of a million steps: in a thousand buckets, made by the server."""

from pathlib import Path
from typing import Any

import duckdb
import orjson

from benchmarks.home import until
from benchmarks.place import Million, Place
from benchmarks.result import Figure, Result, p50, timed

BUCKETS = 1_000
ROUNDS = 11
COMMANDS = 3
MILLI = 1e3
FLOOR = """
SELECT (step - 1) // {width} AS bucket, min(loss), max(loss), avg(loss), count(loss)
FROM metric GROUP BY bucket ORDER BY bucket
"""


def measure(place: Place) -> Result:
    """One number and all columns of the run, in turns with a plain table of the same numbers."""
    run = place.million
    run.home.up()
    until(lambda: _is_there(run), every_seconds=1.0)
    table = _table(place, run)
    width = -(-run.steps // BUCKETS)
    _check(_ours(run, "loss"), _floor(table, width))
    rounds = [
        (
            timed(lambda: _ours(run, "loss")),
            timed(lambda: _floor(table, width)),
            timed(lambda: _ours(run)),
        )
        for _ in range(ROUNDS)
    ]
    ours, floor, all_columns = (p50(each) * MILLI for each in zip(*rounds, strict=True))
    words = ("runs", "metrics", run.run_id, "--fields", "loss", "--buckets", str(BUCKETS))
    command = p50([timed(lambda: run.home.product.run(*words)) for _ in range(COMMANDS)]) * MILLI
    return Result(
        [
            Figure(f"{BUCKETS:,} buckets of one number", ours, "ms", floor, most=1_000.0),
            Figure("the same of all eight columns", all_columns, "ms"),
            Figure("runs metrics --buckets, the whole command", command, "ms"),
        ],
        f"of {run.steps:,} steps, round trip; floor: a fresh DuckDB connection to a plain table of"
        " all 12 metrics, least, greatest and mean by GROUP BY, as JSON",
    )


def _is_there(run: Million) -> bool:
    """Whether the server has come to the end of the run."""
    said = run.home.request("GET", "/v1/info")
    return all(each["position"] >= said["position"] for each in said["projections"].values())


def _ours(run: Million, *fields: str) -> list[Any]:
    path = f"/v1/runs/{run.run_id}/metrics/buckets?buckets={BUCKETS}"
    said = run.home.fetch("GET", path + "".join(f"&fields={each}" for each in fields))
    buckets: list[Any] = orjson.loads(said)["buckets"]
    return buckets


def _floor(table: Path, width: int) -> list[Any]:
    with duckdb.connect(str(table), read_only=True) as connection:
        rows = connection.execute(FLOOR.format(width=width)).fetchall()
    buckets: list[Any] = orjson.loads(orjson.dumps(rows))
    return buckets


def _table(place: Place, run: Million) -> Path:
    """The same numbers in a table that knows nothing of attempts and restores."""
    parquet, path = place.file("million.parquet"), place.file("million.duckdb")
    parquet.write_bytes(run.home.fetch("GET", f"/v1/runs/{run.run_id}/metrics/file?format=parquet"))
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE metric AS SELECT * FROM '{parquet}' ORDER BY step")
    parquet.unlink()
    return path


def _check(ours: list[Any], floor: list[Any]) -> None:
    """Both have found the same least and greatest values in as many steps."""
    told = [each["measured"]["loss"] for each in ours]
    assert [(each["min"], each["max"], each["steps"]) for each in told] == [
        (least, greatest, steps) for _, least, greatest, _, steps in floor
    ]
