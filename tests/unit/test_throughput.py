"""How fast a run trains: tokens a second, of what its newest attempt made."""

from typing import Any

from ledger.store.sqlite import Database
from projections.documents import Documents
from tests import make

TWO = ("cuda:0", "cuda:1")


def throughput(*made: make.Made) -> Any:
    """What the record of a run on two devices says of it after these events."""
    begun = [
        make.submitted(engine={"command": ["train"]}, execution={"devices": 2}),
        make.opened(devices=TWO),
        make.phase("TRAINING"),
        make.began(),
    ]
    history = make.History(begun, *made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    record = documents.get(make.RUN)
    assert record is not None
    return record["cost"]["throughput"]


def update(step: int, tokens: float, seconds: float | None = None, **facts: Any) -> Any:
    return make.step(step, {"loss": 1.0, "num_tokens": tokens}, step_seconds=seconds, **facts)


def test_throughput_is_tokens_by_the_seconds_of_their_updates_on_each_device() -> None:
    """Issue 5, Cost: 6,000 tokens in 1.0 + 0.5 s on two devices; validations take none of it."""
    made = [
        update(1, 4_000, 9.0, at=20),
        update(2, 8_000, 1.0, at=21),
        make.validation(2, at=50),
        update(3, 10_000, 0.5, at=51),
    ]

    assert throughput(*made) == {
        "attempt": 1,
        "tokensPerSecond": 4_000.0,
        "tokensPerSecondPerDevice": 2_000.0,
    }


def test_an_update_that_says_no_seconds_took_the_time_since_the_one_before() -> None:
    """6,000 tokens in 12 s."""
    made = [update(1, 4_000, at=20), update(2, 8_000, at=26), update(3, 10_000, at=32)]

    assert throughput(*made)["tokensPerSecond"] == 500.0


def test_only_the_newest_attempt_says_how_fast_it_is_now() -> None:
    """U17: after a restore on one device of another kind."""
    first = [update(1, 1_000, 1.0), update(2, 2_000, 1.0), update(3, 3_000, 1.0)]
    again = [make.lost(1), make.opened(attempt=2, devices=["cpu:0"]), make.began(attempt=2)]
    one = update(3, 3_000, 2.0, attempt=2)

    assert throughput(first, again) is None
    assert throughput(first, again, one) is None
    assert throughput(first, again, one, update(4, 4_000, 4.0, attempt=2)) == {
        "attempt": 2,
        "tokensPerSecond": 250.0,
        "tokensPerSecondPerDevice": 250.0,
    }


def test_what_a_trainer_took_back_does_not_count() -> None:
    """D5: throughput is of what counts; after the restore 1,000 tokens took 4 s."""
    made = [update(1, 1_000, 1.0), update(2, 2_000, 1.0), make.restored(step=1, attempt=1)]

    assert throughput(*made, update(2, 2_000, 4.0)) is None
    assert throughput(*made, update(2, 2_000, 4.0), update(3, 3_000, 4.0))["tokensPerSecond"] == 250


def test_what_tells_no_tokens_has_no_throughput() -> None:
    """Not measured, never zero; nor is NaN a number of tokens."""
    silent = [make.step(1, {"loss": 1.0}), make.step(2, {"loss": 1.0})]

    assert throughput(*silent) is None
    assert throughput(update(1, float("nan"), 1.0), update(2, float("nan"), 1.0)) is None
