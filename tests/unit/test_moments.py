"""Which position and which clock a text means."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger import moments
from ledger.errors import LedgerError
from ledger.ledger import Ledger
from ledger.moments import Moment
from tests import ledgers, make


@pytest.fixture
def ledger() -> Ledger:
    """Four events: a second apart, but for two that were stored at once."""
    ledger = ledgers.ledger()
    for _ in range(2):
        ledgers.submit(ledger)
    return ledger


def stored_at(ledger: Ledger, position: int) -> datetime:
    (recorded,) = ledger.read(position - 1, 1)
    return recorded.event.timestamp


def test_a_position_is_the_moment_at_which_its_event_was_stored(ledger: Ledger) -> None:
    assert moments.past(ledger, "3", make.START) == Moment(3, stored_at(ledger, 3))


def test_a_time_is_itself_and_means_the_newest_event_by_then(ledger: Ledger) -> None:
    later = stored_at(ledger, 4) + timedelta(days=1)

    def position(at: datetime) -> int:
        found = moments.past(ledger, at.isoformat(), later)
        assert found.at == at
        return found.position

    first, last = stored_at(ledger, 1), stored_at(ledger, 4)
    assert stored_at(ledger, 2) == first  # an acceptance and its run are one transaction
    assert position(first - timedelta(microseconds=1)) == 0
    assert position(first) == 2
    assert position(last - timedelta(microseconds=1)) == 2
    assert position(last) == position(later) == 4


def test_a_time_without_a_zone_is_in_utc_and_one_with_is_in_its_own(ledger: Ledger) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)

    assert moments.past(ledger, "2029-12-31", now).at == datetime(2029, 12, 31, tzinfo=UTC)
    assert moments.past(ledger, "2030-01-01T01:00+01:00", now) == Moment(4, now)


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("5", "position 5 is beyond the end of the ledger, which is at 4", "an earlier moment"),
        ("0", "there is no event at position 0", "positions are from 1"),
        (
            "2030-01-01T00:00:01Z",
            "2030-01-01T00:00:01.000Z is in the future: it is 2030-01-01T00:00:00.000Z now",
            "an earlier moment",
        ),
        ("noon", "'noon' is neither a position nor a time", "2026-11-29T18:00:00Z"),
        ("9" * 30, f"'{'9' * 30}' is neither a position nor a time", "2026-11-29T18:00:00Z"),
    ],
)
def test_what_is_no_moment_of_the_past_is_refused(
    ledger: Ledger, text: str, sentence: str, hint: str
) -> None:
    """I26."""
    with pytest.raises(LedgerError) as refused:
        moments.past(ledger, text, datetime(2030, 1, 1, tzinfo=UTC))

    assert str(refused.value) == sentence
    assert hint in refused.value.hint
