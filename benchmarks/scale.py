"""A run of a million steps: to check its events, to make everything anew, to look back."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99
from benchmarks.steps import measured
from benchmarks.verify import read
from ledger import audit, lifecycle
from ledger.events import Event
from ledger.ledger import Ledger
from ledger.run import RunState, Stamp
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.documents import Documents
from projections.replay import DOCUMENTS, WAREHOUSE, build
from projections.warehouse import Warehouse
from projections.warehouse.publish import publish

DELIVERY = 5_000  # lines that are stored at once
LOOKS = 60  # at moments all over the run
FLOORS = 5
MILLI = 1e3
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def measure(place: Place) -> Result:
    """Each in turns with nothing: it takes so long that the floor beside it is read five times."""
    folder = place.folder / "scale"
    folder.mkdir()
    path = folder / "ledger.db"
    database = Database(path, synchronous="NORMAL")
    try:
        ledger, run_id = _train(database, place.steps)
        events = ledger.position()
        floor = p50([_timed(lambda: read(path)) for _ in range(FLOORS)])
        check = _timed(lambda: audit.verify(ledger))
        rebuild = _timed(lambda: build(ledger, folder, events, ledger=path))
        copy = _timed(lambda: _publish(folder))
        looks = _looks(folder, ledger, run_id)
    finally:
        database.close()
    return Result(
        [
            Figure("events checked, all", check, "s", floor),
            Figure("the same in a second", events / check, "events/s", least=100_000.0),
            Figure("both projections made anew", rebuild, "s", floor),
            Figure("published copy", copy, "s", floor),
            Figure("record as of a moment, p50", p50(looks) * MILLI, "ms", floor * MILLI),
            Figure("record as of a moment, p99", p99(looks) * MILLI, "ms", most=200.0),
        ],
        f"a run of {place.steps:,} steps that went back once; floor: a cursor over all its events",
    )


def _train(database: Database, steps: int) -> tuple[Ledger, str]:
    """A ledger with one run, which is still open."""
    seconds = count()
    ledger = Ledger(
        SQLiteRecorder(database), clock=lambda: BEGIN + timedelta(seconds=next(seconds))
    )
    plan = {"baseModel": "none", "dataset": "none", "engine": "sim"}
    run_id = ledger.submit(plan, token="scale", principal="benchmark").run_id
    for decision in (_open, lambda state, now: lifecycle.start_job(state, now, host="here", pid=1)):
        ledger.decide(run_id, decision, principal="benchmark")
    first = 1
    for lines in _deliveries(steps):
        ledger.record(run_id, 1, first=first, lines=lines)
        first += len(lines)
    return ledger, run_id


def _open(state: RunState, now: Stamp) -> list[Event]:
    return lifecycle.open_attempt(
        state, now, devices=("cpu:0",), launcher="local", token_sha256="0" * 64
    )


def _deliveries(steps: int) -> Iterator[list[str]]:
    """What the trainer says; in the middle it goes back by a delivery, and makes it once more."""
    for first in range(1, steps + 1, DELIVERY):
        yield [_step(step) for step in range(first, min(first + DELIVERY, steps + 1))]
        if first <= steps // 2 < first + DELIVERY:
            yield [json.dumps({"kind": "restore", "step": first - 1})]
            yield [_step(step) for step in range(first, min(first + DELIVERY, steps + 1))]


def _step(step: int) -> str:
    return json.dumps({"kind": "step", "step": step, "measured": measured(step)})


def _publish(folder: Path) -> None:
    warehouse = Warehouse(folder / WAREHOUSE)
    try:
        publish(warehouse, folder / "analytics.duckdb")
    finally:
        warehouse.close()


def _looks(folder: Path, ledger: Ledger, run_id: str) -> list[float]:
    """Seconds of records as of moments anywhere in the life of the run."""
    chance = Random(0)
    database = Database(folder / DOCUMENTS)
    try:
        documents = Documents(database, ledger)
        moments = [chance.randint(2, ledger.position()) for _ in range(LOOKS)]
        return [_timed(lambda at=at: documents.get(run_id, upto=at)) for at in moments]  # type: ignore[misc]
    finally:
        database.close()


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
