"""A long series in few rows."""

import math
from collections.abc import Iterator

import pytest

from projections.warehouse import Warehouse
from projections.warehouse.buckets import reduced
from tests import make


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    made = Warehouse(":memory:")
    yield made
    made.close()


def tell(warehouse: Warehouse, *made: make.Made) -> None:
    warehouse.apply(make.recorded(*made))


def test_each_bucket_has_the_least_the_greatest_and_the_mean_of_its_steps(
    warehouse: Warehouse,
) -> None:
    """U7: nothing of the run is left out, neither its end nor its spikes."""
    tell(warehouse, [make.step(n, loss=float(n)) for n in range(1, 11)])

    found = reduced(warehouse, make.RUN, ["loss"], buckets=3)

    assert [(each["from"], each["to"]) for each in found] == [(1, 4), (5, 8), (9, 10)]
    assert [each["measured"]["loss"] for each in found] == [
        {"min": 1.0, "max": 4.0, "mean": 2.5, "steps": 4, "notFinite": 0},
        {"min": 5.0, "max": 8.0, "mean": 6.5, "steps": 4, "notFinite": 0},
        {"min": 9.0, "max": 10.0, "mean": 9.5, "steps": 2, "notFinite": 0},
    ]


def test_fields_share_their_buckets_and_a_field_is_absent_where_it_has_no_value(
    warehouse: Warehouse,
) -> None:
    """U7, I20: a number that few steps have, and a reward term."""
    steps = [make.step(n, loss=1.0) for n in range(1, 9)]
    steps[1] = make.step(2, {"loss": 1.0, "seldom": 7.0}, reward_terms={"exact": 0.5})
    tell(warehouse, steps)

    found = reduced(warehouse, make.RUN, ["loss", "seldom", "terms:exact"], buckets=2)

    assert [sorted(each["measured"]) for each in found] == [
        ["loss", "seldom", "terms:exact"],
        ["loss"],
    ]
    assert found[0]["measured"]["seldom"]["max"] == 7.0
    assert found[0]["measured"]["terms:exact"]["mean"] == 0.5
    assert reduced(warehouse, make.RUN, ["nobody's"], buckets=2) == []


def test_what_is_not_finite_is_counted_and_decides_nothing(warehouse: Warehouse) -> None:
    """U11, C35: a bucket without a finite value says so."""
    values = [1.0, math.nan, math.inf, 3.0, math.nan, -math.inf]
    tell(warehouse, [make.step(n, loss=value) for n, value in enumerate(values, start=1)])

    first, second = reduced(warehouse, make.RUN, ["loss"], buckets=2, between=(1, 6))[:2]

    assert first["measured"]["loss"] == {
        "min": 1.0,
        "max": 1.0,
        "mean": 1.0,
        "steps": 1,
        "notFinite": 2,
    }
    assert second["measured"]["loss"]["notFinite"] == 2
    (last,) = reduced(warehouse, make.RUN, ["loss"], buckets=1, between=(5, 6))
    assert last["measured"]["loss"] == {
        "min": None,
        "max": None,
        "mean": None,
        "steps": 0,
        "notFinite": 2,
    }


def test_buckets_are_of_current_steps_between_two(warehouse: Warehouse) -> None:
    """S86: what a restore took back is in none; a short run has a bucket for each step."""
    tell(
        warehouse,
        [make.step(n, loss=9.0) for n in range(1, 5)],
        make.restored(2),
        [make.step(n, attempt=2, loss=1.0) for n in range(3, 7)],
    )

    found = reduced(warehouse, make.RUN, ["loss"], buckets=100, between=(2, 5))

    assert [(each["from"], each["to"]) for each in found] == [(2, 2), (3, 3), (4, 4), (5, 5)]
    assert [each["measured"]["loss"]["mean"] for each in found] == [9.0, 1.0, 1.0, 1.0]


def test_fields_that_are_read_together_are_those_that_are_read_alone() -> None:
    """U7, C34, S86: whatever each update lacks, says in two reports, or lost to a restore."""
    history = make.History(
        make.training(),
        [make.step(n, {"loss": 1 / n} if n % 3 else {"grad_norm": float(n)}) for n in range(1, 20)],
        make.step(19, {"loss": 5.0, "grad_norm": float("nan"), "entropy": 2.0}),
        make.restored(step=15, attempt=1),
        [make.step(n, {"loss": 9.0, "epoch": n / 10}) for n in range(16, 31)],
    )
    warehouse = Warehouse(":memory:")
    warehouse.apply(history.events)
    fields = ["entropy", "epoch", "grad_norm", "loss"]

    together = reduced(warehouse, make.RUN, fields, buckets=100)
    alone = {name: reduced(warehouse, make.RUN, [name], buckets=100) for name in fields}

    for name, buckets in alone.items():
        found = [each for each in together if name in each["measured"]]
        assert [(each["from"], each["measured"][name]) for each in found] == [
            (each["from"], each["measured"][name]) for each in buckets
        ]
    assert [each["measured"]["loss"]["max"] for each in together[-15:]] == [9.0] * 15
    warehouse.close()
