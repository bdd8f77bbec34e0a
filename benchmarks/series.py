"""How soon a program that has just connected has a series, and the newest numbers."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson

from benchmarks.place import LONG_STEPS, LongRun, Place
from benchmarks.result import Figure, Result, p50, timed
from benchmarks.steps import measured
from cli.client import Client
from cli.settings import Settings

ROUNDS = 11
GETS = 100
COMMANDS = 3
MILLI = 1e3

Columns = tuple[list[int], list[float]]


def measure(place: Place) -> Result:
    """Reads of the long run; the series in turns with raw SQLite."""
    run = place.long
    run.home.up()
    table = _table(place.file("table.db"))
    pairs = [(timed(lambda: _ours(run)), timed(lambda: _floor(table))) for _ in range(ROUNDS)]
    fast = [timed(lambda: orjson.loads(_said(run))) for _ in range(ROUNDS)]
    latest = [timed(lambda: run.home.record(run.run_id)["latest"]) for _ in range(GETS)]
    return Result(
        [
            Figure(
                f"one series of {LONG_STEPS:,} points",
                p50([ours for ours, _ in pairs]) * MILLI,
                "ms",
                p50([floor for _, floor in pairs]) * MILLI,
                most_ratio=1.0,
            ),
            Figure("the same, read with orjson", p50(fast) * MILLI, "ms"),
            Figure("newest value of all metrics, p50", p50(latest) * MILLI, "ms", most=5.0),
            Figure("runs get, round trip, p50", p50(_gets(run)) * MILLI, "ms", most=50.0),
            Figure("runs get, the whole command", p50(_commands(run)) * MILLI, "ms"),
        ],
        "floor: a fresh sqlite3 connection to a table of all 12 metrics, key (run, name, step)",
    )


def _ours(run: LongRun) -> Columns:
    said = json.loads(_said(run))
    return said["step"], said["value"]


def _said(run: LongRun) -> bytes:
    return run.home.fetch("GET", f"/v1/runs/{run.run_id}/series?field=loss")


def _floor(table: Path) -> Columns:
    with closing(sqlite3.connect(table)) as connection:
        rows = connection.execute(
            "SELECT step, value FROM metric WHERE run = 'run' AND name = 'loss' ORDER BY step"
        ).fetchall()
    return [step for step, _ in rows], [value for _, value in rows]


def _table(path: Path) -> Path:
    """The same 100,000 steps in raw SQLite."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE metric (run TEXT, step INTEGER, name TEXT, value REAL,"
            " PRIMARY KEY (run, name, step)) WITHOUT ROWID"
        )
        connection.executemany(
            "INSERT INTO metric (step, name, value, run) VALUES (?, ?, ?, 'run')", _rows()
        )
    return path


def _rows() -> Iterator[tuple[int, str, float]]:
    for step in range(1, LONG_STEPS + 1):
        for name, value in measured(step).items():
            yield step, name, value


def _gets(run: LongRun) -> list[float]:
    """Seconds of requests by the client of the command line."""
    home = run.home.product.home
    url = json.loads((home / "server.json").read_text())["url"]
    client = Client(
        Settings(
            url=url,
            token=(home / "token").read_text().strip(),
            home=home,
            request_timeout=10.0,
            quiet=True,
            color=False,
            prompts=False,
            verbose=False,
        )
    )
    with closing(client):
        return [timed(lambda: client.get(f"/v1/runs/{run.run_id}")) for _ in range(GETS)]


def _commands(run: LongRun) -> list[float]:
    """Seconds of whole commands."""
    words = ("runs", "get", run.run_id)
    return [timed(lambda: run.home.product.run(*words)) for _ in range(COMMANDS)]
