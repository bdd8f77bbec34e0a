"""Rounds over what is to be done."""

import threading

import pytest

from engine.dispatch.rounds import Rounds, each_of
from tests import ledgers


def test_one_at_fault_holds_up_no_other() -> None:
    """U5: a run that cannot be looked after leaves all others as they would be without it."""
    seen = []

    def act(item: int) -> None:
        seen.append(item)
        if item % 2:
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        each_of(range(4), act)

    assert seen == [0, 1, 2, 3]


def test_a_round_that_failed_is_told_until_one_succeeds() -> None:
    """U5: whoever asks hears what it died of, and the next round tries again."""
    seen: list[Exception | None] = []
    succeeded = threading.Event()

    def work() -> None:
        seen.append(rounds.failure)
        if len(seen) == 1:
            raise ValueError("away")
        if len(seen) == 3:
            succeeded.set()

    rounds = Rounds("rounds", ledgers.ledger(), work, patience=lambda: 0.0)
    rounds.start()

    assert succeeded.wait(20)
    rounds.stop()
    assert [str(each) for each in seen[:3]] == ["None", "away", "None"]
    assert rounds.failure is None


def test_rounds_rest_while_the_ledger_grows_and_wait_as_long_as_they_are_told_when_not() -> None:
    """A training run brings about a round with every batch; one that is readied must not wait."""
    ledger, asked = ledgers.ledger(), threading.Event()
    grown = iter(range(3))

    def work() -> None:
        if next(grown, None) is not None:
            ledgers.submit(ledger)

    def patience() -> float:
        asked.set()
        return 0.0

    rounds = Rounds("rounds", ledger, work, patience=patience, rest_seconds=0.001)
    rounds.start()

    assert asked.wait(20)
    rounds.stop()
    assert next(grown, None) is None
    assert len(ledger.open_runs()) == 3
