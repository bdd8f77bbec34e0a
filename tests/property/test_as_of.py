"""An earlier moment is what live projections answered that saw no more, in any legal history."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ledger.events import Recorded
from ledger.run import TERMINAL, Phase
from ledger.store.sqlite import Database
from projections.documents import Documents, milestones
from projections.warehouse import Warehouse, queries, rollouts
from projections.warehouse.buckets import reduced
from projections.warehouse.rollouts import Which
from tests.property.histories import families, histories, split
from tests.property.test_projections import moved, runs_of, source_of

OPEN = [phase.value for phase in Phase if phase not in TERMINAL]
ASKED: list[dict[str, Any]] = [
    {},
    {"superseded": True},
    {"attempt": 1},
    {"attempt": 2},
    {"fields": {"loss"}, "between": (2, 6)},
]


@pytest.fixture(scope="module", autouse=True)
def _near_milestones() -> Iterator[None]:
    """So near that histories of a hundred events have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milestones, "EVENTS", 4)
        patch.setattr(milestones, "POSITIONS", 9)
        yield


@pytest.fixture(scope="module")
def warehouses() -> Iterator[tuple[Warehouse, Warehouse]]:
    """Two for all examples: opening one takes longer than an example."""
    pair = Warehouse(":memory:"), Warehouse(":memory:")
    yield pair
    for each in pair:
        each.close()


def documents(history: list[Recorded], batches: list[list[Recorded]]) -> Documents:
    made = Documents(Database(":memory:"), source_of(history))
    for batch in batches:
        made.apply(batch)
    return made


@settings(max_examples=40)
@given(data=st.data(), history=histories() | families())
def test_a_document_of_an_earlier_moment_is_the_one_of_then(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """S21, D5, D6, S22b: records with their cost, of every run, whatever came later."""
    made = documents(history, data.draw(split(history)))
    upto = data.draw(st.integers(1, len(history)))
    then = documents(history, [history[:upto]])

    for run_id in runs_of(history):
        assert made.get(run_id, upto=upto) == then.get(run_id)
    assert made.get("run-nobody", upto=upto) is None


@settings(max_examples=30)
@given(data=st.data(), history=histories())
def test_a_list_of_an_earlier_moment_is_the_one_of_then(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """I2: page by page, and by the phase that a run had then."""
    made = documents(history, [history])
    upto = data.draw(st.integers(1, len(history)))
    then = documents(history, [history[:upto]])
    phases = data.draw(st.none() | st.just(OPEN) | st.lists(st.sampled_from(list(Phase))))
    limit = data.draw(st.integers(1, 3))

    before = None
    while True:
        asked: dict[str, Any] = {"phases": phases, "limit": limit, "before": before}
        page, before = made.list(**asked, upto=upto)
        assert (page, before) == then.list(**asked)
        if before is None:
            break


@settings(max_examples=40)
@given(data=st.data(), history=histories() | families())
def test_snapshots_branches_and_trees_of_an_earlier_moment_are_those_of_then(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """I7, I12, I13, D5: status, pins, holders, states and phases, whatever came later."""
    made = documents(history, data.draw(split(history)))
    upto = data.draw(st.integers(1, len(history)))
    then = documents(history, [history[:upto]])

    for run_id in runs_of(history):
        assert made.snapshots(run_id, upto) == then.snapshots(run_id)
        if then.row(run_id) is None:
            continue
        assert made.tree(run_id, upto) == then.tree(run_id)
        assert made.ancestry(run_id, upto) == then.ancestry(run_id)
        limit, before = data.draw(st.integers(1, 3)), None
        while page := then.branches(run_id, limit, before):
            assert made.branches(run_id, limit, before, upto=upto) == page
            for each in page:
                token = each["submissionId"]
                assert made.branch(run_id, token, upto) == then.branch(run_id, token) == each
            before = page[-1]["position"]
        assert made.branches(run_id, limit, before, upto=upto) == []


@settings(max_examples=20)
@given(data=st.data(), history=histories())
def test_milestones_are_the_same_in_any_batching(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """A projection is a fold, and what it keeps on the way is part of it."""
    at_once = documents(history, [history])
    in_batches = documents(history, data.draw(split(history)))

    for run_id in runs_of(history):
        assert in_batches.whole(run_id) == at_once.whole(run_id)


def shown(warehouse: Warehouse, run_id: str, step: int, which: Which) -> list[dict[str, Any]]:
    return rollouts.rollouts(warehouse, run_id, step, which, order="worst", most=200)


@settings(max_examples=15)
@given(data=st.data(), history=histories())
def test_the_series_of_an_earlier_moment_are_those_of_then(
    warehouses: tuple[Warehouse, Warehouse], data: st.DataObject, history: list[Recorded]
) -> None:
    """S86, D5, D6, U1, U7: steps, what was superseded and by what, validations, pages, buckets."""
    upto = data.draw(st.integers(1, len(history)))
    # The second warehouse never sees what came later. Names and positions are those of an example.
    whole, then = warehouses
    history = moved(history, max(whole.position(), then.position()))
    whole.apply(history)
    then.apply(history[:upto])
    end = history[upto - 1].position

    for run_id in runs_of(history):
        for asked in ASKED:
            found = queries.metrics(whole, run_id, **asked, upto=end)
            assert found == queries.metrics(then, run_id, **asked)
            which = {name: asked[name] for name in asked if name != "fields"}
            found = queries.validations(whole, run_id, **which, upto=end)
            assert found == queries.validations(then, run_id, **which)
            of_then = Which(which.get("superseded", False), which.get("attempt"))
            of_all = of_then._replace(upto=end)
            counts = rollouts.counts(then, run_id, of_then)
            assert rollouts.counts(whole, run_id, of_all) == counts
            for step in list(counts)[-1:]:
                found = shown(whole, run_id, step, of_all)
                assert found == shown(then, run_id, step, of_then)
                assert len(found) == counts[step]
            found_page = queries.page(whole, run_id, most=3, limit=5, **which, upto=end)
            assert found_page == queries.page(then, run_id, most=3, limit=5, **which)
        fields, most = ["loss", "grad_norm", "terms:a"], {"buckets": 3}
        assert reduced(whole, run_id, fields, **most, upto=end) == reduced(
            then, run_id, fields, **most
        )
