"""Laws of projections, over any legal history."""

import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ledger.events import Recorded, Restored, RunSubmitted, ValidationReported
from ledger.store.sqlite import Database
from projections import wire
from projections.compare import differences
from projections.documents import Documents
from projections.documents.store import Row
from projections.warehouse import Warehouse, queries
from tests import make
from tests.property.histories import histories, naive_series, split

EXAMPLES = count(1)
HEAVY = settings(max_examples=15)  # a batch into DuckDB takes about 10 ms


@pytest.fixture(scope="module")
def warehouses() -> Iterator[tuple[Warehouse, Warehouse]]:
    """Two for all examples: opening one takes longer than an example."""
    pair = Warehouse(":memory:"), Warehouse(":memory:")
    yield pair
    for each in pair:
        each.close()


def source_of(history: list[Recorded]) -> make.History:
    source = make.History()
    source.events = history
    return source


def runs_of(history: list[Recorded]) -> list[str]:
    return [each.event.run_id for each in history if isinstance(each.event, RunSubmitted)]


def documents(history: list[Recorded], batches: list[list[Recorded]]) -> Documents:
    made = Documents(Database(":memory:"), source_of(history))
    for batch in batches:
        made.apply(batch)
    return made


def rows_of(made: Documents, history: list[Recorded]) -> list[Row | None]:
    return [made.row(run_id) for run_id in runs_of(history)]


@given(data=st.data(), history=histories())
def test_documents_are_the_same_in_any_batching(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """A projection is a fold: one by one, in batches, or rebuilt at once, bit for bit."""
    at_once = documents(history, [history])
    one_by_one = documents(history, [[each] for each in history])
    in_batches = documents(history, data.draw(split(history)))

    expected = rows_of(at_once, history)

    assert rows_of(one_by_one, history) == expected
    assert rows_of(in_batches, history) == expected
    assert at_once.position() == one_by_one.position() == in_batches.position() == len(history)


@given(history=histories())
def test_a_document_says_what_a_fold_that_really_deletes_says(history: list[Recorded]) -> None:
    """S14, S26, S86, U11: loss, counts of what is not finite, and the newest numbers."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        rows = naive_series(history, run_id)
        assert record["results"]["trainingLoss"] == naive_loss(rows)
        told = [row for row in rows if row[1]]
        latest = {"step": told[-1][0], "measured": wire.numbers(told[-1][1])} if told else None
        assert record["latest"] == latest
        assert record["results"]["validationLoss"] == naive_validation(history, run_id)


def naive_loss(rows: list[tuple[int, dict[str, Any]]]) -> dict[str, Any] | None:
    losses = [row["loss"] for _, row in rows if "loss" in row]
    finite = [loss for loss in losses if math.isfinite(loss)]
    if not losses:
        return None
    return {
        "first": wire.number(losses[0]),
        "last": wire.number(losses[-1]),
        "mean": wire.number(in_order(finite) / len(finite)) if finite else None,
        "steps": len(finite),
        "notFinite": len(losses) - len(finite),
    }


def in_order(values: list[float]) -> float:
    """The sum as it is made one by one (``sum`` itself is more exact since Python 3.12)."""
    total = 0.0
    for value in values:
        total += value
    return total


def naive_validation(history: list[Recorded], run_id: str) -> Any:
    """The last current validation that measured a loss."""
    rows: list[ValidationReported] = []
    for _, event in history:
        if event.run_id == run_id and isinstance(event, Restored):
            rows = [row for row in rows if row.step <= event.step]
        elif event.run_id == run_id and isinstance(event, ValidationReported):
            rows.append(event)
    for row in reversed(rows):
        for name in ("eval_loss", "loss", "eval_g0_loss"):
            if name in row.measured:
                value = row.measured[name]
                named = "g0" if name == "eval_g0_loss" else None
                return {
                    "value": wire.number(value),
                    "step": row.step,
                    "dataset": row.dataset or named,
                    "perplexity": perplexity(value),
                }
    return None


def perplexity(loss: float) -> float | str | None:
    return None if 709.8 < loss < math.inf else wire.number(math.exp(loss))


@given(history=histories())
def test_times_add_up_and_never_run_backwards(history: list[Recorded]) -> None:
    """S23, S24: whatever the clocks say."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        timing = record["timing"]
        assert sum(timing["phaseMillis"].values()) == timing["durationMillis"] >= 0
        assert sum(timing["split"].values()) == timing["durationMillis"]
        assert sum(visit["millis"] for visit in timing["visits"]) == timing["durationMillis"]
        assert all(visit["millis"] >= 0 for visit in timing["visits"])


@given(data=st.data(), history=histories())
def test_cost_never_shrinks_when_the_estimate_is_left_aside(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """D5: no restore gives back what was spent."""
    cut = data.draw(st.integers(0, len(history)))
    earlier = documents(history, [history[:cut]])
    later = documents(history, [history])

    for run_id in runs_of(history[:cut]):
        before, after = earlier.get(run_id), later.get(run_id)
        assert before is not None
        assert after is not None
        assert spent(after) >= spent(before)


def spent(record: dict[str, Any]) -> float:
    return sum(each["deviceSeconds"] or 0.0 for each in record["attempts"])


@HEAVY
@given(data=st.data(), history=histories())
def test_the_warehouse_is_the_same_in_any_batching_and_equals_a_fold_that_really_deletes(
    warehouses: tuple[Warehouse, Warehouse],
    data: st.DataObject,
    history: list[Recorded],
) -> None:
    """S86, C32, C35, D6: any history of steps and restores, in any batching."""
    at_once, in_batches = warehouses
    history = moved(history, max(each.position() for each in warehouses))

    at_once.apply(history)
    for batch in data.draw(split(history)):
        in_batches.apply(batch)

    for run_id in runs_of(history):
        expected = [(step, wire.numbers(row)) for step, row in naive_series(history, run_id)]
        for warehouse in warehouses:
            found = queries.metrics(warehouse, run_id)
            assert [(row["step"], row["measured"]) for row in found] == expected
            assert loss_of(warehouse, run_id) == [
                (step, row["loss"]) for step, row in expected if "loss" in row
            ]
    assert all_rows(at_once, history) == all_rows(in_batches, history)


def moved(history: list[Recorded], start: int) -> list[Recorded]:
    """The same history under other names, beyond position ``start``."""
    unique = next(EXAMPLES)
    return [
        Recorded(
            start + position,
            event.model_copy(
                update={"originator_id": event.originator_id.replace("run-", f"{unique}-run-")}
            ),
        )
        for position, event in history
    ]


def loss_of(warehouse: Warehouse, run_id: str) -> list[tuple[int, float | str]]:
    steps, values = queries.series(warehouse, run_id, "loss")
    return [
        (step, wire.number(value))
        for step, value in zip(steps.tolist(), values.tolist(), strict=True)
    ]


def all_rows(warehouse: Warehouse, history: list[Recorded]) -> str:
    """Every report and validation of these runs, superseded ones too, as text (NaN is NaN)."""
    first = history[0].position
    with warehouse.read() as cursor:
        return repr(
            [
                cursor.execute(
                    f"SELECT * FROM {view} WHERE position >= ? ORDER BY position", [first]
                ).fetchall()
                for view in ("metrics_all", "validations_all", "phases", "restore", "attempt_end")
            ]
        )


@settings(max_examples=4)
@given(data=st.data(), history=histories())
def test_rebuilt_projections_equal_the_live_ones(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """Same events, same rows: a comparison with a fresh replay finds nothing."""
    batches = data.draw(split(history))
    made, warehouse = documents(history, batches), Warehouse(":memory:")
    for batch in batches:
        warehouse.apply(batch)

    found = differences(source_of(history), made, warehouse)

    warehouse.close()
    assert found == []
