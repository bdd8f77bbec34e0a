"""A run of a million steps, written into a ledger without a worker: as fast as lines are taken.

It is sealed as a server would have done, which what checks the ledger makes use of.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from api.settings import Settings
from benchmarks.steps import measured
from ledger import lifecycle
from ledger.events import Event, Job
from ledger.ledger import Ledger
from ledger.run import Ending, RunState, Stamp
from ledger.seals import Sealer
from ledger.store.sqlite import Database, SQLiteRecorder

DELIVERY = 5_000  # lines that are stored at once
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = Ending(outcome="completed", end_class="completed", code="completed", reason="it is whole")


def write(path: Path, steps: int) -> str:
    """Add a run of so many updates, which has ended, to the ledger in a file; its id."""
    with closing(Database(path, synchronous="NORMAL")) as database:
        seconds = count()
        ledger = Ledger(
            SQLiteRecorder(database), clock=lambda: BEGIN + timedelta(seconds=next(seconds))
        )
        run_id = _train(ledger, steps)
        _seal(ledger)
        return run_id


def _train(ledger: Ledger, steps: int) -> str:
    plan = {"baseModel": "none", "dataset": "none", "engine": "sim"}
    run_id = ledger.submit(plan, token="million", principal="benchmark").run_id
    for decision in (_open, lambda state, now: lifecycle.start_job(state, now, host="here", pid=1)):
        ledger.decide(run_id, decision, principal="benchmark")
    first = 1
    for lines in _deliveries(steps):
        ledger.record(run_id, Job(1), first=first, lines=lines)
        first += len(lines)
    ledger.close_job(
        run_id, ending=WHOLE, last_sign_at=BEGIN + timedelta(seconds=first), principal="benchmark"
    )
    return run_id


def _seal(ledger: Ledger) -> None:
    """Seal what there is, as a server does that finds it."""
    settings = Settings.model_fields
    Sealer(
        ledger,
        every_events=settings["seal_events"].default,
        every_seconds=60 * settings["seal_minutes"].default,
        monotonic=time.monotonic,
        key=lambda: None,
    ).work()


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
    yield [json.dumps({"kind": "completed"})]


def _step(step: int) -> str:
    return json.dumps({"kind": "step", "step": step, "measured": measured(step)})
