"""The place where benchmarks work: one home for short runs, and one that holds the long run."""

import json
import sqlite3
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks import million
from benchmarks.home import Home, until
from benchmarks.steps import measured

LONG_STEPS = 100_000
FLOOR_COMMITS = 20_000
FLOOR_ROUNDS = 4


@dataclass(frozen=True)
class LongRun:
    """A run of 100,000 steps that was reported as fast as it could be."""

    home: Home
    run_id: str
    said_seconds: float  # until the trainer had said everything
    seconds: float  # from its first call until every step could be queried
    commit_seconds: list[float]  # floor: of one step in a transaction of its own, by rounds
    batched_seconds: list[float]  # of one step in a transaction of 1,000


@dataclass(frozen=True)
class Million:
    """A run of a million steps that has ended, in a home whose server is down."""

    home: Home
    run_id: str
    steps: int

    @property
    def ledger(self) -> Path:
        """The file that holds its events."""
        return self.home.product.home / "ledger.db"


class Place:
    """Homes that are made when they are first needed."""

    def __init__(self, folder: Path, steps: int) -> None:
        """``steps``: of the run of a million steps."""
        self.folder = folder
        self.steps = steps
        self._homes: list[Home] = []

    @cached_property
    def home(self) -> Home:
        """The home of the short runs."""
        return self._open("short")

    @cached_property
    def long(self) -> LongRun:
        """The long run, in a home that holds nothing else; half of the floor before and after."""
        home = self._open("long")
        floors = [self._floor() for _ in range(FLOOR_ROUNDS // 2)]
        run_id = home.start("fast", LONG_STEPS)
        home.go(run_id)
        path = f"/v1/runs/{run_id}/series?field=loss"
        until(lambda: home.record(run_id)["observedStep"] == LONG_STEPS, every_seconds=0.25)
        until(lambda: len(home.request("GET", path)["step"]) == LONG_STEPS)
        there = time.time()
        home.ended(run_id)
        floors += [self._floor() for _ in range(FLOOR_ROUNDS // 2)]
        began, ended = (
            float((home.output(run_id) / name).read_text()) for name in ("began", "ended")
        )
        return LongRun(
            home=home,
            run_id=run_id,
            said_seconds=ended - began,
            seconds=there - began,
            commit_seconds=[each for each, _ in floors],
            batched_seconds=[each for _, each in floors],
        )

    @cached_property
    def million(self) -> Million:
        """The run of a million steps, in a home that holds nothing else."""
        home = self._open("million")
        home.down()
        run_id = million.write(home.product.home / "ledger.db", self.steps)
        return Million(home, run_id, self.steps)

    @cached_property
    def many(self) -> Home:
        """The home of many short runs."""
        return self._open("many")

    @cached_property
    def read(self) -> Home:
        """A home whose published copy others read."""
        return self._open("read")

    @cached_property
    def busy(self) -> Home:
        """A home where many runs train at once."""
        return self._open("busy", slots=20)

    def file(self, name: str) -> Path:
        """A path for a file of a floor."""
        return self.folder / name

    def close(self) -> None:
        """End every server."""
        for home in self._homes:
            home.close()

    def _open(self, name: str, slots: int = 4) -> Home:
        home = Home(self.folder / name, slots)
        self._homes.append(home)
        return home

    def _floor(self) -> tuple[float, float]:
        """Seconds of one step in raw SQLite: a commit for each, and one for 1,000."""
        steps = FLOOR_COMMITS // FLOOR_ROUNDS
        return self._stored(steps, batch=1), self._stored(4 * steps, batch=1_000)

    def _stored(self, steps: int, *, batch: int) -> float:
        path = self.file("floor.db")
        for each in path.parent.glob("floor.db*"):
            each.unlink()
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE step (step INTEGER PRIMARY KEY, measured TEXT)")
        began = time.perf_counter()
        for first in range(1, steps + 1, batch):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO step VALUES (?, ?)",
                ((step, json.dumps(measured(step))) for step in range(first, first + batch)),
            )
            connection.execute("COMMIT")
        seconds = time.perf_counter() - began
        connection.close()
        return seconds / steps
