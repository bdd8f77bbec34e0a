"""What stored events of old topics mean today. The bytes stay as they are; only reading lifts them.

A topic is given up when an event needs a fact that its old form has no default for. The function
below then says that fact from what the old form has.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ledger.events import REGISTRY, AttemptClosed, EndClass, Event, Outcome

Facts = dict[str, Any]  # of an event, as JSON


class Lift(NamedTuple):
    """From an old topic to the next one."""

    topic: str  # the next one, which may be old itself
    facts: Callable[[Facts], Facts]


def _attempt_closed_v1(facts: Facts) -> Facts:
    """Before an attempt's end said what became of it, its class did, and there was no pause."""
    return {"outcome": outcome_of(facts["end_class"])} | facts


def outcome_of(end_class: EndClass) -> Outcome:
    """What became of an attempt of which only the class of its end is known."""
    if end_class == "completed":
        return "completed"
    return "cancelled" if end_class == "stopped" else "failed"


LIFTS: dict[str, Lift] = {
    "run.attempt_closed.v1": Lift(AttemptClosed.TOPIC, _attempt_closed_v1),
}


def lift(topic: str, facts: Facts) -> tuple[str, Facts]:
    """The newest form of an event that was stored under ``topic``."""
    while topic in LIFTS:
        following = LIFTS[topic]
        topic, facts = following.topic, following.facts(facts)
    return topic, facts


def is_known(topic: str) -> bool:
    """Whether an event of this topic can be read."""
    return topic in REGISTRY or topic in LIFTS


def topics_of(kinds: Iterable[type[Event]]) -> list[str]:
    """Every topic under which events of these kinds may be stored, the old ones too."""
    wanted = {kind.TOPIC for kind in kinds}
    return sorted(wanted | {topic for topic in LIFTS if _newest(topic) in wanted})


def _newest(topic: str) -> str:
    while topic in LIFTS:
        topic = LIFTS[topic].topic
    return topic
