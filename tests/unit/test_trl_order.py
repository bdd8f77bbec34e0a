"""Which rows an update takes, and how they are divided over ranks and passes."""

import math

import pytest
from hypothesis import given, strategies as st

from engine.worker.trl.order import Batches, Order


@st.composite
def orders(draw: st.DrawFn) -> Order:
    ranks, micro, accumulation = (draw(st.integers(1, 4)) for _ in range(3))
    rows, seed = draw(st.integers(1, 60)), draw(st.integers(0, 3))
    return Order(rows, seed, ranks * micro * accumulation, micro, ranks)


@pytest.mark.parametrize(
    ("rows", "micro", "accumulation", "updates"),
    [(3, 1, 4, 1), (7, 1, 4, 2), (10, 2, 2, 3), (8, 2, 4, 1)],
)
def test_updates_of_an_epoch_are_rounded_up(
    rows: int, micro: int, accumulation: int, updates: int
) -> None:
    """C15: the cases that others got wrong by one."""
    order = Order(rows, 0, micro * accumulation, micro)

    assert order.updates == updates
    assert [order.place(step) for step in (0, updates, 2 * updates)] == [(0, 0), (1, 0), (2, 0)]


@given(orders(), st.integers(0, 10))
def test_every_row_of_an_update_is_taken_once_whatever_the_division(
    order: Order, step: int
) -> None:
    """S95, S107: by one rank, in one pass; all ranks go forward equally often."""
    rows = order.next_rows(step)
    shares = [list(order.passes(rows, rank)) for rank in range(order.ranks)]

    assert sorted(row for share in shares for taken in share for row in taken) == sorted(rows)
    assert len({len(share) for share in shares}) == 1
    assert max(len(taken) for share in shares for taken in share) <= order.per_micro_batch


@given(orders(), st.integers(0, 3))
def test_an_epoch_takes_every_row_once_and_another_division_the_same_ones(
    order: Order, epoch: int
) -> None:
    """S95: the rows of an update follow from seed and epoch alone."""
    alone = Order(order.rows, order.seed, order.per_update, order.per_update)
    first = epoch * order.updates
    updates = [order.next_rows(step) for step in range(first, first + order.updates)]

    assert sorted(row for update in updates for row in update) == list(range(order.rows))
    assert updates == [alone.next_rows(step) for step in range(first, first + order.updates)]


@given(orders(), st.booleans())
def test_what_a_rank_loads_is_what_the_order_gives_it(order: Order, shuffles: bool) -> None:
    """Its length is what the trainer plans the updates by."""
    for rank in range(order.ranks):
        batches = Batches(order, rank, shuffles=shuffles)
        batches.set_epoch(2)
        loaded = list(batches)

        assert len(loaded) == len(batches)
        passes = order.per_update // (order.per_micro_batch * order.ranks)
        assert math.ceil(len(batches) / passes) == order.updates
        if shuffles:
            expected = [
                list(taken)
                for step in range(2 * order.updates, 3 * order.updates)
                for taken in order.passes(order.next_rows(step), rank)
            ]
            assert loaded == expected


@given(orders(), st.integers(0, 20))
def test_passes_without_a_row_are_counted(order: Order, step: int) -> None:
    """They have tokens of no row, which no count of tokens may hold."""
    idle = sum(
        not taken
        for made in range(step)
        for rank in range(order.ranks)
        for taken in order.passes(order.next_rows(made), rank)
    )

    assert order.idle(step) == idle


def test_a_last_row_goes_to_the_first_of_two_ranks() -> None:
    """C15: 25 rows by 12; the other rank goes forward without one."""
    order = Order(25, 0, 12, 3, 2)
    rows = order.next_rows(2)

    assert [list(order.passes(rows, rank)) for rank in (0, 1)] == [[rows], [()]]
    assert [order.idle(step) for step in range(7)] == [0, 0, 0, 1, 1, 1, 2]
