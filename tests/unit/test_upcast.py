"""Events of old topics: what they mean today, while their bytes stay what they are."""

import pytest
from eventsourcing.persistence import StoredEvent

from ledger import codec, upcast
from ledger.errors import CorruptError
from ledger.events import REGISTRY, AttemptClosed, RunCompleted
from ledger.upcast import LIFTS

CLOSED = (
    '{"timestamp":"2026-11-29T21:49:37Z","principal":"dispatch","attempt":1,"lines":7,'
    '"end_class":"%s","reason":"the job was over","last_sign_at":"2026-11-29T21:49:37Z"}'
)


def stored(topic: str, payload: str) -> StoredEvent:
    return StoredEvent("run/aa", 7, topic, codec.GENESIS + payload.encode())


@pytest.mark.parametrize(
    ("end_class", "outcome"),
    [
        ("completed", "completed"),
        ("stopped", "cancelled"),
        ("input", "failed"),
        ("resource", "failed"),
        ("infrastructure", "failed"),
        ("unknown", "failed"),
    ],
)
def test_the_end_of_an_attempt_that_has_no_outcome_gets_it_from_its_class(
    end_class: str, outcome: str
) -> None:
    """U14: what the first version stored is read as if it had been said today."""
    event = codec.decode(stored("run.attempt_closed.v1", CLOSED % end_class))

    assert isinstance(event, AttemptClosed)
    assert (event.outcome, event.end_class, event.lines) == (outcome, end_class, 7)


def test_an_outcome_that_was_said_under_the_old_topic_stays() -> None:
    paused = CLOSED.replace("{", '{"outcome":"paused",', 1) % "stopped"

    event = codec.decode(stored("run.attempt_closed.v1", paused))

    assert isinstance(event, AttemptClosed)
    assert event.outcome == "paused"


def test_an_old_event_that_lacks_what_it_is_lifted_by_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="version 7 of run/aa is not a run"):
        codec.decode(stored("run.attempt_closed.v1", "{}"))


def test_every_old_topic_leads_to_one_that_is_written_today() -> None:
    for topic in LIFTS:
        assert topic not in REGISTRY
        newest = topic
        while newest in LIFTS:
            newest = LIFTS[newest].topic
        assert newest in REGISTRY


def test_who_asks_for_a_kind_of_event_gets_the_old_ones_too() -> None:
    assert upcast.topics_of([AttemptClosed, RunCompleted]) == [
        "run.attempt_closed.v1",
        "run.attempt_closed.v2",
        "run.completed.v1",
    ]
