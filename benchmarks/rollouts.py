"""What 64 rollouts for each update cost: the training loop, the disk, and whoever reads them."""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.home import Home, until
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, timed
from benchmarks.texts import GENERATIONS, scored

UPDATES = 300
FLOOR_UPDATES = 100
ROUNDS = 15
MILLI = 1e3
MB = 1e-6


def measure(place: Place) -> Result:
    """A run of rollouts alone against a table of SQLite with a commit for each update."""
    home = place.many
    floor = _floor(place.file("rollouts.db"))
    before = _ledger(home)
    run_id = home.start("rollouts", UPDATES)
    home.go(run_id)
    path = f"/v1/runs/{run_id}/rollouts"
    until(lambda: home.request("GET", path)["steps"][-1:] == [UPDATES], every_seconds=0.1)
    there = time.time()
    home.ended(run_id)
    began = float((home.output(run_id) / "began").read_text())
    calls = json.loads((home.output(run_id) / "times.json").read_text())
    said = [json.loads(line) for line in home.spool(run_id).read_text().splitlines()]
    texts = sum(len(json.dumps(each["rollouts"])) for each in said if each["kind"] == "rollouts")
    worst = _milliseconds(lambda: home.fetch("GET", f"{path}?worst=5"))
    checked = timed(lambda: home.product.run("audit", "verify"))
    return Result(
        [
            Figure("64 rollouts, until queryable", (there - began) / UPDATES, "s", floor),
            Figure("the call in the training loop", p50(calls) * MILLI, "ms"),
            Figure("ledger, in bytes of the rollouts", (_ledger(home) - before) / texts, ""),
            Figure("the worst 5 of an update", worst, "ms", most=50.0),
            Figure("audit verify of all", checked, "s"),
        ],
        f"{UPDATES} updates of {GENERATIONS} rollouts, {texts * MB:.0f} MB in all; floor: SQLite,"
        " WAL, synchronous=FULL, a row for each rollout, a commit for each update",
    )


def _milliseconds(call: Callable[[], Any]) -> float:
    return p50([timed(call) for _ in range(ROUNDS)]) * MILLI


def _ledger(home: Home) -> int:
    """Bytes of the ledger and of what its database keeps beside it."""
    files = home.product.home.glob("ledger.db*")
    return sum(each.stat().st_size for each in files if not each.name.endswith("-shm"))


def _floor(path: Path) -> float:
    """Seconds of an update in raw SQLite."""
    updates = [scored() for _ in range(FLOOR_UPDATES)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE rollout (step INTEGER, place INTEGER, said TEXT, score REAL)"
        )
        began = time.perf_counter()
        for step, rollouts in enumerate(updates):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO rollout VALUES (?, ?, ?, ?)",
                [(step, n, json.dumps(each), each["score"]) for n, each in enumerate(rollouts)],
            )
            connection.execute("COMMIT")
        return (time.perf_counter() - began) / FLOOR_UPDATES
