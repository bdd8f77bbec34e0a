"""Every query of the gallery answers what it promises, over runs that are made here."""

import math
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ledger.events import Event, Rollout
from projections.sql import sandbox
from projections.warehouse import Warehouse
from tests import make

TEXT = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")
QUERIES = dict(re.findall(r"^## (.+?)\n.*?```sql\n(.+?)```", TEXT, re.MULTILINE | re.DOTALL))

RESTORED, FAILED, CHILD = "00000000000000a1", "00000000000000a2", "00000000000000c1"
SOURCE = make.origin("8", 8, parent=RESTORED)
WEEK = 7 * 86_400

EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "What each project cost, week by week": [
        ("triage", date(2026, 11, 30), 1, 0.048),
        ("search", date(2026, 12, 7), 1, 0.025),
        ("triage", date(2026, 12, 7), 1, 0.006),
    ],
    "What restores cost": [(RESTORED, 2, 20.0, 11.5)],
    "The slowest phases": [
        (FAILED, "WAITING", 1, 300.0),
        (FAILED, "TRAINING", 1, 70.0),
        (RESTORED, "TRAINING", 2, 61.0),
        (RESTORED, "WAITING", 2, 41.0),
        (FAILED, "PREPARING", 1, 20.0),
    ],
    "Runs whose gradient norm spiked": [(RESTORED, 7, 20.0, 40.0)],
    "The noise between repeated updates": [(RESTORED, 2, 0.015, 0.02)],
    "How attempts ended": [
        ("completed", "completed", "completed", 2, 118.0),
        ("infrastructure", "failed", "vanished", 1, 76.0),
        ("resource", "failed", "deviceMemory", 1, 90.0),
    ],
    "How far restores went back": [(RESTORED, 2, 4, 2)],
    "Updates per hour": [
        (RESTORED, 8, 472.1),
        (CHILD, 2, 360.0),
        (FAILED, 3, 154.3),
    ],
    "How much of the time runs waited": [
        ("search", 390.0, 76.9),
        ("triage", 129.0, 32.6),
    ],
    "Training loss beside validation loss": [
        (RESTORED, 4, 0.25, 0.5, 0.25),
        (RESTORED, 8, 0.125, 0.5, 0.375),
        (CHILD, 2, 0.5, 0.4, -0.1),
    ],
    "Snapshots by size": [
        (RESTORED, 1, 30, 30, 8),
    ],
    "Trees of branches": [
        (RESTORED, 0, RESTORED, RESTORED),
        (RESTORED, 1, CHILD, f"{RESTORED} > {CHILD} from 8"),
    ],
    "The slowest stages": [("loading the model", 1, 15.0, 15.0), ("reading rows", 1, 5.0, 5.0)],
    "Saves that failed": [
        (RESTORED, 1, 6, "saveFailed", "No space left on device"),
        (RESTORED, 2, 6, "snapshotRejected", "a file is missing"),
    ],
    "The last value of every metric": [
        (RESTORED, 0.125, 0.5, None),
        (FAILED, math.inf, None, 1.5),
        (CHILD, 0.5, None, None),
    ],
    "The best validation by learning rate": [(1e-4, 1, 0.4, CHILD), (2e-4, 1, 0.5, RESTORED)],
    "Who did what": [
        (make.moment(WEEK + 400), "tester", "runSubmitted", CHILD),
        (make.moment(WEEK + 400), "tester", "branchRequested", None),
        (make.moment(WEEK), "tester", "runSubmitted", FAILED),
    ],
    "Which term of the reward the score came from": [
        (FAILED, "correct", 0.5, 0.25),
        (FAILED, "format", 0.0, 0.9),
    ],
}


def restored() -> list[make.Made]:
    """Two devices, 8 updates of 5 s; the worker is lost after 6 of them, and 4 are saved."""
    run = RESTORED
    again = {"grad_norm": 0.5}
    return [
        make.submitted(run, at=0, project="triage", config={"learningRate": 2e-4}),
        make.phase("WAITING", run, at=1),
        make.opened(1, run, at=2, devices=["cuda:0", "cuda:1"]),
        make.phase("QUEUED", run, at=2),
        make.started(1, run, at=3),
        make.phase("PREPARING", run, at=3),
        make.began(attempt=1, run=run, at=8),
        make.phase("TRAINING", run, at=8),
        [made(n, run, at=8 + 5 * n) for n in range(1, 5)],
        make.validation(4, {"eval_loss": 0.5}, run=run, at=28),
        make.offered(4, 1, run, at=28),
        make.committed("4", 4, 1, run, at=28),
        [made(n, run, at=8 + 5 * n) for n in range(5, 7)],
        make.save_failed(6, "No space left on device", 1, run, at=38),
        make.reports_closed(1, run, at=40),
        make.closed(1, run, at=40, end_class="infrastructure", outcome="failed", code="vanished"),
        make.phase("WAITING", run, at=40),
        make.opened(2, run, at=60, devices=["cuda:0", "cuda:1"], snapshot_id=make.snapshot_id("4")),
        make.begun_from(4, 2, run, at=60, snapshot_id=make.snapshot_id("4")),
        make.phase("TRAINING", run, at=80),
        make.began(attempt=2, run=run, at=80),
        made(5, run, 2, at=85, loss=0.21, **again),
        made(6, run, 2, at=90, loss=1 / 6 + 0.02, **again),
        make.offered(6, 2, run, at=90),
        make.snapshot_rejected(6, "a file is missing", 2, run, at=91),
        made(7, run, 2, at=95, loss=1 / 7, grad_norm=20.0),
        made(8, run, 2, at=100, loss=0.125, **again),
        make.validation(8, {"eval_loss": 0.5}, attempt=2, run=run, at=101),
        make.offered(8, 2, run, at=102),
        make.committed("8", 8, 2, run, at=103),
        make.swept("4", run=run, at=104),
        make.reports_closed(2, run, at=109),
        make.closed(2, run, at=109, outcome="completed", code="completed"),
        make.completed(run, at=109),
    ]


def made(step: int, run: str, attempt: int = 1, *, at: float, **measured: float) -> Event:
    """An update; its loss is 1/step and its gradient norm 0.5 unless something else is said."""
    return make.step(step, {"loss": 1 / step, "grad_norm": 0.5} | measured, attempt, run, at)


def hit(correct: float, format_: float) -> Rollout:
    """What is right to a degree, and of the wanted form to a degree."""
    return make.rollout(correct + format_, terms={"correct": correct, "format": format_})


def failed() -> list[make.Made]:
    """It waits for 5 minutes a week later, and runs out of memory in its fourth update."""
    run, start = FAILED, WEEK
    return [
        make.submitted(run, at=start, project="search"),
        make.phase("WAITING", run, at=start),
        make.opened(1, run, at=start + 300),
        make.started(1, run, at=start + 300),
        make.phase("PREPARING", run, at=start + 300),
        make.stage("reading rows", 0, 10, run=run, at=start + 300),
        make.stage("reading rows", 10, 10, run=run, at=start + 304),
        make.stage("loading the model", run=run, at=start + 305),
        make.began(run=run, at=start + 320),
        make.phase("TRAINING", run, at=start + 320),
        make.scored(1, hit(1.0, 0.0), hit(0.0, 0.0), run=run, at=start + 339),
        make.step(1, {"loss": 1.0, "entropy": 2.5}, run=run, at=start + 340),
        make.step(2, {"loss": 0.5, "entropy": 1.5}, run=run, at=start + 360),
        make.scored(3, hit(0.5, 1.0), hit(0.0, 0.8), run=run, at=start + 379),
        make.step(3, {"loss": math.inf}, run=run, at=start + 380),
        make.reports_closed(1, run, at=start + 390),
        make.closed(
            1, run, at=start + 390, end_class="resource", outcome="failed", code="deviceMemory"
        ),
        make.failed(run, at=start + 390),
    ]


def child() -> list[make.Made]:
    """A branch of the first run, with half its learning rate."""
    run, start = CHILD, WEEK + 400
    config = {"learningRate": 1e-4, "maxSteps": 2}
    return [
        make.branch_requested(run, SOURCE, 2, at=start, project="triage", config=config),
        make.snapshot_held(SOURCE, run, at=start),
        make.source_held(run, at=start),
        make.submitted(run, at=start, origin=SOURCE, project="triage", config=config),
        make.branch_created(run, at=start),
        make.phase("WAITING", run, at=start),
        make.opened(1, run, at=start),
        make.phase("TRAINING", run, at=start),
        make.began(run=run, at=start),
        make.step(1, {"loss": 0.75}, run=run, at=start + 10),
        make.step(2, {"loss": 0.5}, run=run, at=start + 20),
        make.validation(2, {"eval_loss": 0.4}, run=run, at=start + 20),
        make.reports_closed(1, run, at=start + 20),
        make.closed(1, run, at=start + 20, outcome="completed", code="completed"),
        make.completed(run, at=start + 20),
    ]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """What queries of `trainledger sql` are run on."""
    path = tmp_path_factory.mktemp("gallery") / "warehouse.duckdb"
    warehouse = Warehouse(path)
    warehouse.apply(make.recorded(restored(), failed(), child()))
    warehouse.make_views()
    warehouse.close()
    with sandbox.connect(path, memory_bytes=1 << 28, threads=1) as connection:
        yield connection


def test_the_gallery_has_every_query_that_is_checked_here() -> None:
    """style.md 34."""
    assert list(QUERIES) == list(EXPECTED)
    assert len(QUERIES) >= 15


@pytest.mark.parametrize("title", EXPECTED)
def test_a_query_of_the_gallery_answers(reader: duckdb.DuckDBPyConnection, title: str) -> None:
    """C55: run as the server would run it."""
    query = QUERIES[title]

    sandbox.check(query)

    assert reader.execute(query).fetchall() == EXPECTED[title]
