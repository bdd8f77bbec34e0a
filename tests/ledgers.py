"""Makers of real ledgers, and of runs in them."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

from ledger import lifecycle
from ledger.ledger import Ledger
from ledger.run import Ending
from ledger.store.memory import MemoryRecorder
from ledger.store.recorder import LedgerRecorder
from tests import make

DONE = Ending("completed", "completed", "completed", "everything that the plan asked for is done")
DOCUMENT = {"baseModel": "tiny", "dataset": "rows.jsonl", "engine": "sim"}


def ticking() -> Callable[[], datetime]:
    """A clock that goes on by one second each time it is read."""
    reads = iter(range(10**9))
    return lambda: make.START + timedelta(seconds=next(reads))


def ledger(recorder: LedgerRecorder | None = None) -> Ledger:
    return Ledger(recorder or MemoryRecorder(), clock=ticking())


def submit(to: Ledger, **fields: Any) -> str:
    return to.submit(DOCUMENT | fields, token=token_hex(8), principal="tester").run_id


def open_attempt(of: Ledger, run_id: str, *, devices: tuple[str, ...] = ("cpu:0",)) -> None:
    of.decide(
        run_id,
        lambda state, stamp: lifecycle.open_attempt(
            state, stamp, devices=devices, launcher="local", token_sha256="0" * 64
        ),
        principal="dispatch",
    )
    of.decide(
        run_id,
        lambda state, stamp: lifecycle.start_job(state, stamp, host="here", pid=7),
        principal="attempt/1",
    )


def started(of: Ledger, **fields: Any) -> str:
    """A run whose first attempt is at work."""
    run_id = submit(of, **fields)
    open_attempt(of, run_id)
    return run_id


def preparing(of: Ledger, **fields: Any) -> str:
    """A run whose first preparation is at work."""
    run_id = submit(of, **({"engine": "trl", "execution": {"devices": 2}} | fields))
    of.decide(
        run_id,
        lambda state, stamp: lifecycle.open_preparation(
            state, stamp, launcher="local", token_sha256="0" * 64
        ),
        principal="dispatch",
    )
    return run_id


def close(of: Ledger, run_id: str, ending: Ending = DONE, at: datetime = make.START) -> None:
    of.close_job(run_id, ending=ending, last_sign_at=at, principal="dispatch")


def step_lines(first: int, last: int, **measured: float) -> list[str]:
    """Lines of the steps from ``first`` to ``last``; their loss is 1/step where not stated."""
    return [
        json.dumps({"kind": "step", "step": n, "measured": {"loss": 1 / n, **measured}})
        for n in range(first, last + 1)
    ]
