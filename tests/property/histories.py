"""Strategies of legal histories: whatever a ledger may hold, in any order that its rules allow."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ledger.events import Event, Recorded, attempt_of
from tests import make

NAMES = ("loss", "grad_norm", "learning_rate", "actor/grad_norm", "损失", "a b:c__MIN", "")

numbers = st.floats() | st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0, 0.5])
measured: SearchStrategy[dict[str, float]] = st.dictionaries(
    st.sampled_from(NAMES), numbers, max_size=5
)
ends = st.sampled_from(["completed", "failed", "cancelled", "open"])


@st.composite
def histories(draw: DrawFn) -> list[Recorded]:
    """The events of one to three runs, interleaved, with clocks that disagree."""
    runs = [draw(lives(f"run-{n}")) for n in range(draw(st.integers(1, 3)))]
    chance = Random(draw(st.integers(0, 999)))  # cheaper than a draw for each event
    told: list[Event] = []
    while any(runs):
        told.append(chance.choice([each for each in runs if each]).pop(0))
    return [timed(each, chance) for each in make.recorded(told)]


def timed(recorded: Recorded, chance: Random) -> Recorded:
    """The event with a worker's clock that is off, as far as a worker reported it."""
    event = recorded.event
    if attempt_of(event.originator_id) is None or chance.random() < 0.5:
        return recorded
    off = timedelta(seconds=chance.uniform(-50, 50))
    return recorded._replace(event=event.model_copy(update={"reported_at": event.timestamp + off}))


@st.composite
def lives(draw: DrawFn, run: str) -> list[Event]:
    """One run, from its submission to an end or to the middle of something."""
    told: list[Event] = [make.submitted(run), make.phase("WAITING", run)]
    if draw(st.integers(0, 9)) == 0:
        return [*told, make.cancel_requested(run), make.cancelled(run)]
    reached = 0
    for attempt in range(1, draw(st.integers(1, 3)) + 1):
        if attempt > 1:
            told += [make.phase("WAITING", run)]
        told += [make.opened(attempt, run), make.phase("QUEUED", run)]
        told += [make.started(attempt, run), make.phase("PREPARING", run)]
        if attempt > 1:
            reached = draw(st.integers(0, reached))
            told.append(make.restored(reached, attempt, run))
        told += [make.began(draw(st.none() | st.integers(1, 20)), attempt, run)]
        told += [make.phase("TRAINING", run)]
        reports, reached = draw(training(run, attempt, reached))
        told += reports
        told += [make.reports_closed(attempt, run), make.closed(attempt, run)]
    match draw(ends):
        case "completed":
            told.append(make.completed(run))
        case "failed":
            told.append(make.failed(run))
        case "cancelled":
            told += [make.cancel_requested(run), make.cancelled(run)]
        case _:
            del told[draw(st.integers(2, len(told))) :]
    return told


@st.composite
def training(draw: DrawFn, run: str, attempt: int, step: int) -> tuple[list[Event], int]:
    """What an attempt reports after ``step``, and the update that it reached."""
    told: list[Event] = []
    may_add = False  # whether the newest update can be told more of
    kinds = ["step", "step", "step", "more", "validation", "restore", "other"]
    for n, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=10))):
        if kind == "step":
            step += draw(st.integers(1, 3))
            terms = draw(st.none() | st.dictionaries(st.sampled_from("ab"), numbers))
            told.append(make.step(step, draw(measured), attempt, run, reward_terms=terms))
            may_add = True
        elif kind == "more" and may_add:
            told.append(make.step(step, {f"more/{n}": draw(numbers)}, attempt, run))
        elif kind == "validation":
            dataset = draw(st.sampled_from([None, "a", "b"]))
            losses = draw(st.sampled_from(["eval_loss", "loss", "eval_g0_loss", "accuracy"]))
            told.append(make.validation(step, {losses: draw(numbers)}, dataset, attempt, run))
        elif kind == "restore":
            step, may_add = draw(st.integers(0, step)), False
            told.append(make.restored(step, attempt, run))
        elif kind == "other":
            told.append(draw(st.sampled_from(others(run, attempt))))
    return told, step


def others(run: str, attempt: int) -> list[Event]:
    """Reports that belong to no update."""
    return [
        make.stage("reading rows", 5, 10, attempt, run),
        make.rejected("no JSON", attempt, run),
        make.memory({"cpu:0": 5}, attempt, run),
        make.hparams({"lr": float("nan")}, attempt, run),
        make.model(5, attempt, run),
    ]


@st.composite
def split(draw: DrawFn, history: Sequence[Recorded], most: int = 6) -> list[list[Recorded]]:
    """The history in batches, any of which may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(history)), max_size=most - 1)))
    bounds = [0, *cuts, len(history)]
    return [list(history[a:b]) for a, b in pairwise(bounds)]


def naive_series(history: Sequence[Recorded], run_id: str) -> list[tuple[int, dict[str, Any]]]:
    """Current updates by a fold that really deletes, several reports of one update merged."""
    rows: list[tuple[int, dict[str, Any]]] = []
    for _, event in history:
        if event.run_id != run_id:
            continue
        match event:
            case make.events.Restored():
                rows = [row for row in rows if row[0] <= event.step]
            case make.events.StepReported() if rows and rows[-1][0] == event.step:
                rows[-1][1].update(event.measured)
            case make.events.StepReported():
                rows.append((event.step, dict(event.measured)))
    return rows
