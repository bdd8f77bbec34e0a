"""The warehouse: what a model made of its prompts at an update, through any history of restores."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from projections.warehouse import Warehouse, rollouts
from projections.warehouse.rollouts import Order, Which
from tests import make

NAN = math.nan
CURRENT = Which()


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


def shown(
    of: Warehouse, step: int, which: Which = CURRENT, order: Order = "scoring", most: int = 200
) -> list[dict[str, Any]]:
    return rollouts.rollouts(of, make.RUN, step, which, order=order, most=most)


def scores(of: Warehouse, step: int, **asked: Any) -> list[tuple[int, Any]]:
    return [(each["place"], each["score"]) for each in shown(of, step, **asked)]


def select(of: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with of.read() as cursor:
        return cursor.execute(query).fetchall()


def test_rollouts_of_several_reports_are_those_of_one_update(warehouse: Warehouse) -> None:
    """S125: each has its prompt, completion, score and terms, in the order of scoring."""
    first = make.rollout(1.1, prompt="2 * 3?", completion="6", terms={"correct": 1, "form": 0.1})
    warehouse.apply(
        make.recorded(
            make.submitted(), make.scored(1, first, 0.5), make.scored(1, 0.25), make.step(1)
        )
    )

    assert rollouts.counts(warehouse, make.RUN, CURRENT) == {1: 3}
    assert scores(warehouse, 1) == [(1, 1.1), (2, 0.5), (3, 0.25)]
    assert shown(warehouse, 1, most=1) == [
        {
            "place": 1,
            "attempt": 1,
            "prompt": "2 * 3?",
            "completion": "6",
            "score": 1.1,
            "terms": {"correct": 1.0, "form": 0.1},
        }
    ]
    assert rollouts.counts(warehouse, "another run", CURRENT) == {}


def test_equal_scores_stay_in_the_order_of_scoring_and_nan_comes_last(warehouse: Warehouse) -> None:
    """S128: stable ties; what is no number is neither the best nor the worst."""
    warehouse.apply(make.recorded(make.scored(1, 0.5, NAN, 1.0, 0.5, -math.inf, 1.0, 0.5)))

    best, worst = scores(warehouse, 1, order="best"), scores(warehouse, 1, order="worst", most=4)

    assert best == [(3, 1.0), (6, 1.0), (1, 0.5), (4, 0.5), (7, 0.5), (5, "-Infinity"), (2, "NaN")]
    assert worst == [(5, "-Infinity"), (1, 0.5), (4, 0.5), (7, 0.5)]


def test_what_a_restore_took_back_is_shown_when_it_is_asked_for(warehouse: Warehouse) -> None:
    """D5, D13: update 3 was scored and never made, 2 was made twice; both by attempt 1 at first."""
    warehouse.apply(
        make.recorded(
            make.submitted(),
            [make.scored(1, 0.1), make.step(1), make.scored(2, 0.2, 0.3), make.step(2)],
            make.scored(3, 0.4),
            make.retried(2, step=1),
            make.scored(2, 0.9, attempt=2),
        )
    )
    every, first = Which(superseded=True), Which(attempt=1)

    assert rollouts.counts(warehouse, make.RUN, CURRENT) == {1: 1, 2: 1}
    assert scores(warehouse, 2) == [(1, 0.9)]
    assert rollouts.counts(warehouse, make.RUN, every) == {1: 1, 2: 3, 3: 1}
    assert scores(warehouse, 2, which=every) == [(1, 0.2), (2, 0.3), (1, 0.9)]
    assert rollouts.counts(warehouse, make.RUN, first) == {1: 1, 2: 2, 3: 1}
    taken_back = shown(warehouse, 3, first)[0]
    assert taken_back["superseded"]
    assert (taken_back["supersededBy"]["attempt"], taken_back["supersededBy"]["step"]) == (2, 1)
    assert "superseded" not in shown(warehouse, 1, first)[0]


def test_an_update_that_was_scored_and_never_made_keeps_its_rollouts(warehouse: Warehouse) -> None:
    """S133: the attempt ended between the two, and nothing went back below it."""
    warehouse.apply(make.recorded(make.submitted(), make.step(1), make.scored(2, 0.7)))

    assert rollouts.counts(warehouse, make.RUN, CURRENT) == {2: 1}


def test_an_earlier_moment_has_the_rollouts_of_then(warehouse: Warehouse) -> None:
    history = make.recorded(make.scored(1, 0.1), make.scored(1, 0.2), make.restored(0, attempt=1))
    warehouse.apply(history)

    counts = [rollouts.counts(warehouse, make.RUN, Which(upto=n)) for n in (0, 1, 2, 3)]

    assert counts == [{}, {1: 1}, {1: 2}, {}]
    assert scores(warehouse, 1, which=Which(upto=1)) == [(1, 0.1)]


TEXTS = [
    "",
    "[1] is no list of messages",
    '"quoted"',
    "two\nlines\tand \\ and \u0000 and \u2028",
    "слово 词 🙂",
    [{"role": "user", "content": "Hi"}, {"role": "tool", "content": [{"text": "x"}], "id": 7}],
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_and_messages_come_back_as_they_were_said(warehouse: Warehouse, text: Any) -> None:
    """S131, C35: a text that looks like JSON is still a text."""
    warehouse.apply(make.recorded(make.scored(1, make.rollout(1.0, prompt=text, completion=text))))

    (told,) = shown(warehouse, 1)

    assert (told["prompt"], told["completion"]) == (text, text)
    if isinstance(text, str):
        assert select(warehouse, "SELECT prompt, completion FROM rollouts") == [(text, text)]


def test_analysts_have_two_views_one_without_what_was_taken_back(warehouse: Warehouse) -> None:
    """S125, D13: as of metrics, so that a mean over the shorter name counts nothing twice."""
    said = make.rollout(0.5, prompt=[{"role": "user", "content": "Hi"}])
    warehouse.apply(
        make.recorded(
            make.submitted(),
            make.scored(1, 1.0, said),
            make.retried(2, step=0),
            make.scored(1, 0.25, attempt=2),
        )
    )

    current = "SELECT step, attempt, place, prompt, score, terms FROM rollouts"
    every = "SELECT attempt, segment, superseded, place, score FROM rollouts_all_attempts"
    assert select(warehouse, current) == [(1, 2, 1, "Say more.", 0.25, {"correct": 0.25})]
    assert select(warehouse, f"{every} ORDER BY ALL") == [
        (1, 1, True, 1, 1.0),
        (1, 1, True, 2, 0.5),
        (2, 2, False, 1, 0.25),
    ]
    chat = "SELECT prompt FROM rollouts_all_attempts WHERE place = 2"
    assert select(warehouse, chat) == [('[{"role":"user","content":"Hi"}]',)]


def test_the_texts_are_kept_once_in_the_warehouse(warehouse: Warehouse) -> None:
    """An event of 64 long texts is not told a second time in the view of events."""
    warehouse.apply(make.recorded(make.scored(4, 0.5, 0.75)))

    assert select(warehouse, "SELECT kind, payload FROM events") == [
        ("rolloutsScored", '{"step":4,"count":2}')
    ]
