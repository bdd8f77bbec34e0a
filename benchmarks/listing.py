"""How soon a list of 500 runs is there, each with the newest value of everything it measured."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from benchmarks.home import Home
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, timed
from benchmarks.steps import measured

RUNS = 500
STEPS = 20  # of each run: a list has the newest numbers only
PAGE = 100  # as the command asks
ROUNDS = 15
COMMANDS = 3
MILLI = 1e3


def measure(place: Place) -> Result:
    """All runs in one answer and in the pages of the command, in turns with raw SQLite."""
    home = place.many
    newest = [_history(home, number) for number in range(RUNS)]
    table = _table(place.file("newest.db"), newest)
    assert [each["latest"]["measured"] for each in _whole(home)] == newest[::-1]
    rounds = [
        (timed(lambda: _whole(home)), timed(lambda: _floor(table)), timed(lambda: _pages(home)))
        for _ in range(ROUNDS)
    ]
    whole, floor, pages = (p50(each) * MILLI for each in zip(*rounds, strict=True))
    words = ("runs", "list", "--limit", str(RUNS))
    command = p50([timed(lambda: home.product.run(*words)) for _ in range(COMMANDS)]) * MILLI
    return Result(
        [
            Figure(f"list of {RUNS} runs, round trip", whole, "ms", floor, most=200.0),
            Figure("the same in pages of 100", pages, "ms", floor),
            Figure("runs list, the whole command", command, "ms"),
        ],
        "with the newest of 12 metrics of each; floor: a fresh sqlite3 connection to a table of"
        " nothing but those, as JSON",
    )


def _history(home: Home, number: int) -> dict[str, float]:
    """Import a short history; what it measured last."""
    steps = [measured(number * STEPS + step) for step in range(1, STEPS + 1)]
    source = {"kind": "source", "source": "benchmark", "file": f"{number}", "sha256": "0" * 64}
    rows = [
        {"kind": "step", "step": step, "measured": numbers} for step, numbers in enumerate(steps, 1)
    ]
    lines = "\n".join(map(json.dumps, [source, *rows]))
    home.request("POST", f"/v1/runs:import?submissionId=list-{number}", lines)
    return steps[-1]


def _whole(home: Home) -> list[Any]:
    runs: list[Any] = orjson.loads(home.fetch("GET", f"/v1/runs?limit={RUNS}"))["runs"]
    return runs


def _pages(home: Home) -> list[Any]:
    found: list[Any] = []
    before = ""
    while True:
        said = orjson.loads(home.fetch("GET", f"/v1/runs?limit={PAGE}{before}"))
        found += said["runs"]
        if said["next"] is None:
            return found
        before = f"&before={said['next']}"


def _table(path: Path, newest: list[dict[str, float]]) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE newest (run INTEGER, name TEXT, value REAL, PRIMARY KEY (run, name))"
            " WITHOUT ROWID"
        )
        connection.executemany(
            "INSERT INTO newest VALUES (?, ?, ?)",
            (
                (run, name, value)
                for run, numbers in enumerate(newest)
                for name, value in numbers.items()
            ),
        )
    return path


def _floor(table: Path) -> list[Any]:
    runs: dict[int, dict[str, float]] = {}
    with closing(sqlite3.connect(table)) as connection:
        for run, name, value in connection.execute("SELECT * FROM newest ORDER BY run DESC"):
            runs.setdefault(run, {})[name] = value
    said: list[Any] = orjson.loads(orjson.dumps(list(runs.values())))
    return said
