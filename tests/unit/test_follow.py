"""Following the ledger: in order, nothing skipped, and honest about standing still."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from ledger.events import Recorded
from projections import follow
from projections.follow import Follower
from projections.source import PAGE
from tests import make

PATIENCE = 10.0  # seconds that a test waits for a fact before it fails


class Positions:
    """A projection that notes what it was given."""

    name = "positions"

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.batches: list[int] = []
        self.trouble: Exception | None = None
        self.refused = threading.Event()

    def position(self) -> int:
        return self.seen[-1] if self.seen else 0

    def apply(self, batch: Sequence[Recorded]) -> None:
        if self.trouble is not None:
            self.refused.set()
            raise self.trouble
        self.batches.append(len(batch))
        self.seen += [each.position for each in batch]


@pytest.fixture
def projection() -> Positions:
    return Positions()


@pytest.fixture
def history() -> make.History:
    return make.History(make.training())


@pytest.fixture
def follower(history: make.History, projection: Positions) -> Iterator[Follower]:
    follower = Follower(history, projection)
    yield follower
    follower.stop()


def test_everything_is_applied_once_and_in_order(
    history: make.History, projection: Positions, follower: Follower
) -> None:
    follower.start()
    history.add(make.steps(5))

    assert follower.wait_for(13, PATIENCE)
    history.add(make.steps(9, first=6))

    assert follower.wait_for(17, PATIENCE)
    assert projection.seen == list(range(1, 18))
    assert follower.failure is None


def test_a_batch_is_no_longer_than_a_page(
    history: make.History, projection: Positions, follower: Follower
) -> None:
    history.add([make.stage("reading rows") for _ in range(2 * PAGE)])
    follower.start()

    assert follower.wait_for(2 * PAGE + 8, PATIENCE)
    assert projection.batches == [PAGE, PAGE, 8]


def test_waiting_for_a_position_that_does_not_come_ends(follower: Follower) -> None:
    follower.start()
    assert follower.wait_for(8, PATIENCE)

    assert not follower.wait_for(9, timeout=0.01)


def test_a_failure_is_told_and_the_batch_is_tried_again(
    history: make.History, projection: Positions, follower: Follower
) -> None:
    """A projection never skips an event; health shows why it stands still."""
    projection.trouble = ValueError("the disk is full")
    follower.start()
    assert projection.refused.wait(PATIENCE)
    projection.refused.clear()
    assert projection.refused.wait(PATIENCE)
    assert str(follower.failure) == "the disk is full"

    projection.trouble = None

    assert follower.wait_for(8, PATIENCE)
    history.add(make.steps(1))
    assert follower.wait_for(9, PATIENCE)
    assert projection.seen == list(range(1, 10))


def test_a_projection_of_a_longer_ledger_is_told_and_does_not_wait(
    projection: Positions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older copy of the ledger was put back: what the projection holds never happened."""
    monkeypatch.setattr(follow, "IDLE_SECONDS", 0.01)
    projection.seen = [99]
    told = threading.Event()
    history = TellingHistory(told)
    follower = Follower(history, projection)

    follower.start()

    assert told.wait(PATIENCE)
    assert "has come to position 99 and the ledger ends at 0" in str(follower.failure)
    follower.stop()


class TellingHistory(make.History):
    """A ledger that notes when its end was asked for a second time."""

    def __init__(self, told: threading.Event) -> None:
        super().__init__()
        self.told, self.waits = told, 0

    def wait_beyond(self, position: int, timeout: float) -> bool:
        self.waits += 1
        if self.waits > 1:
            self.told.set()
        return super().wait_beyond(position, timeout)


def test_a_stopped_follower_lets_its_waiters_go(follower: Follower) -> None:
    follower.start()
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(follower.wait_for(99, PATIENCE)))
    waiter.start()

    follower.stop()
    waiter.join(PATIENCE)

    assert answers == [False]


def test_what_comes_while_a_projection_rests_is_one_batch_and_nobody_waits_for_the_rest(
    history: make.History, projection: Positions
) -> None:
    """S45: metrics are never behind what was stored before they are asked for."""
    follower = Follower(history, projection, rest_seconds=PATIENCE)
    follower.start()
    assert follower.wait_for(8, PATIENCE)
    began = len(projection.batches)

    history.add(make.step(1))
    history.add(make.step(2))

    assert follower.wait_for(10, PATIENCE / 2)
    assert projection.batches[began:] == [2]
    follower.stop()
