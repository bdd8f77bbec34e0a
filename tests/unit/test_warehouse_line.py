"""The line of a branch: what its ancestors gave it, then its own updates."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.warehouse import Warehouse, line
from tests import make

CHILD = "00000000000000c1"
GRANDCHILD = "00000000000000d1"


class Told:
    """Both projections of one history."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.history = make.History()
        self.documents = Documents(Database(":memory:"), self.history)

    def tell(self, *made: make.Made) -> None:
        events = self.history.add(*made)
        self.documents.apply(events)
        self.warehouse.apply(events)

    def series(self, run: str, field: str = "loss") -> list[tuple[int, float]]:
        steps, values = line.series(self.warehouse, self.documents.ancestry(run), field)
        return list(zip(steps.tolist(), values.tolist(), strict=True))

    def metrics(self, run: str, **asked: Any) -> list[dict[str, Any]]:
        return line.metrics(self.warehouse, self.documents.ancestry(run), **asked)


@pytest.fixture
def told() -> Iterator[Told]:
    warehouse = Warehouse(":memory:")
    yield Told(warehouse)
    warehouse.close()


def steps(run: str, first: int, last: int, plus: float = 0.0) -> list[make.Made]:
    """Updates whose loss is their step, and more."""
    return [make.step(n, run=run, loss=n + plus) for n in range(first, last + 1)]


def test_a_line_over_two_generations_counts_on(told: Told) -> None:
    """I13, S124: root to 20 of its 40, child to 5 of its 8, then the grandchild's 3."""
    told.tell(
        make.training(),
        steps(make.RUN, 1, 20),
        make.saved(20),
        make.branched(CHILD, make.origin("20", 20)),
        steps(make.RUN, 21, 40),
        make.training(CHILD)[1:],
        steps(CHILD, 1, 5, plus=1000),
        make.saved(5, "5", run=CHILD),
        steps(CHILD, 6, 8, plus=1000),
        make.branched(GRANDCHILD, make.origin("5", 5, parent=CHILD)),
        make.training(GRANDCHILD)[1:],
        steps(GRANDCHILD, 1, 3, plus=2000),
    )

    root = [(n, float(n)) for n in range(1, 41)]
    child = [(20 + n, 1000.0 + n) for n in range(1, 9)]
    grandchild = [(25 + n, 2000.0 + n) for n in range(1, 4)]
    assert told.series(make.RUN) == root
    assert told.series(CHILD) == [*root[:20], *child]
    assert told.series(GRANDCHILD) == [*root[:20], *child[:5], *grandchild]


def test_all_numbers_of_a_line_say_whose_they_are(told: Told) -> None:
    """S124: the engine's own count goes on by itself."""
    told.tell(
        make.training(),
        make.step(1, {"loss": 1.0, "entropy": 0.5}, reward_terms={"length": 2.0}),
        make.step(1, {"accuracy": float("nan")}),
        make.saved(1, "1"),
        make.branched(CHILD, make.origin("1", 1, restore="trainingState")),
        make.training(CHILD)[1:],
        make.step(1, {"loss": 0.25, "engine_step": 2}, run=CHILD),
    )

    assert told.metrics(CHILD) == [
        {
            "step": 1,
            "runId": make.RUN,
            "runStep": 1,
            "attempt": 1,
            "measured": {"loss": 1.0, "entropy": 0.5, "accuracy": "NaN"},
            "rewardTerms": {"length": 2.0},
        },
        {
            "step": 2,
            "runId": CHILD,
            "runStep": 1,
            "attempt": 1,
            "measured": {"loss": 0.25, "engine_step": 2.0},
        },
    ]
    assert [each["measured"] for each in told.metrics(CHILD, fields={"entropy"})] == [
        {"entropy": 0.5},
        {},
    ]
    assert told.series(CHILD, "entropy") == [(1, 0.5)]
    assert told.series(CHILD, "engine_step") == [(2, 2.0)]


def test_what_a_parent_trained_anew_later_is_not_what_its_child_came_from(told: Told) -> None:
    """D11, D5: branched at 20 while the parent trained, which then lost everything after 10."""
    told.tell(
        make.training(),
        steps(make.RUN, 1, 10),
        make.saved(10),
        steps(make.RUN, 11, 20),
        make.saved(20),
        make.branched(CHILD, make.origin("20", 20)),
        make.retried(2, 10, name="10"),
        [make.step(n, attempt=2, loss=n + 0.5) for n in range(11, 25)],
    )

    assert told.series(CHILD) == [(n, float(n)) for n in range(1, 21)]
    assert told.series(make.RUN)[9:12] == [(10, 10.0), (11, 11.5), (12, 12.5)]


def test_a_branch_of_a_superseded_snapshot_has_the_updates_that_led_to_it(told: Told) -> None:
    """C26, D5: and none of those that came in their place."""
    told.tell(
        make.training(),
        steps(make.RUN, 1, 20),
        make.saved(20),
        make.retried(2, 0),
        [make.step(n, attempt=2, loss=n + 0.5) for n in range(1, 6)],
        make.branched(CHILD, make.origin("20", 20)),
        make.training(CHILD)[1:],
        steps(CHILD, 1, 1, plus=1000),
    )

    assert told.series(CHILD) == [*((n, float(n)) for n in range(1, 21)), (21, 1001.0)]


def test_restores_before_a_snapshot_was_written_count(told: Told) -> None:
    """D5, C32: of a parent, and of the child itself; files may be committed late."""
    told.tell(
        make.training(),
        steps(make.RUN, 1, 5),
        make.restored(3, attempt=1),
        steps(make.RUN, 4, 6, plus=100),
        make.offered(6),
        make.restored(4, attempt=1),
        steps(make.RUN, 5, 7, plus=200),
        make.committed("6", 6),
        make.branched(CHILD, make.origin("6", 6)),
        make.training(CHILD)[1:],
        steps(CHILD, 1, 3, plus=1000),
        make.restored(1, attempt=1, run=CHILD),
        steps(CHILD, 2, 2, plus=2000),
    )

    parent = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 104.0), (5, 105.0), (6, 106.0)]
    assert told.series(CHILD) == [*parent, (7, 1001.0), (8, 2002.0)]


def test_an_update_that_is_reported_after_it_was_saved_is_of_the_line(told: Told) -> None:
    """A trainer may save first and log then."""
    told.tell(
        make.training(),
        steps(make.RUN, 1, 1),
        make.saved(2, "2"),
        steps(make.RUN, 2, 3),
        make.branched(CHILD, make.origin("2", 2)),
    )

    assert told.series(CHILD) == [(1, 1.0), (2, 2.0)]


def test_the_line_of_nothing_is_empty(told: Told) -> None:
    assert told.series("ff") == []
    assert told.metrics("ff") == []


def test_a_line_of_a_thousand_generations_is_one_query(told: Told) -> None:
    """I13: each child makes one update."""
    runs = [make.RUN, *(f"c{n:015x}" for n in range(1, 1001))]
    chain: list[make.Made] = [make.training(), steps(make.RUN, 1, 1), make.saved(1, make.RUN)]
    for parent, child in pairwise(runs):
        source = make.origin(parent, 1, parent=parent)
        chain += [make.branched(child, source, 1), make.training(child)[1:4]]
        chain += [steps(child, 1, 1), make.saved(1, child, run=child)]
    told.tell(chain)

    assert [step for step, _ in told.series(runs[-1])] == list(range(1, 1002))
    assert [each["runId"] for each in told.metrics(runs[-1])] == runs
