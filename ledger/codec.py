"""Events as bytes, each chained to its predecessor.

The state of a stored event is the digest of its predecessor in the stream (32 bytes), then the
event as JSON. The digest covers the bytes as they are stored, so no form of JSON is canonical.
"""

import hashlib
from datetime import UTC, datetime

from eventsourcing.persistence import StoredEvent
from pydantic_core import from_json, to_json

from ledger import upcast
from ledger.errors import CorruptError
from ledger.events import REGISTRY, Event, UnknownEvent

DIGEST_BYTES = 32
GENESIS = bytes(DIGEST_BYTES)  # what the first event of a stream holds for a predecessor
_COLUMNS = {"originator_id", "originator_version"}


def encode(event: Event, previous: bytes) -> StoredEvent:
    """The event as it is stored after one whose digest is ``previous``."""
    payload = event.model_dump_json(exclude=_COLUMNS, exclude_none=True).encode()
    return StoredEvent(
        event.originator_id, event.originator_version, event.TOPIC, previous + payload
    )


def digest(stored: StoredEvent) -> bytes:
    """SHA-256 over everything that the stored event says, its predecessor's digest included."""
    return digest_of(
        str(stored.originator_id), stored.originator_version, stored.topic, stored.state
    )


def digest_of(stream: str, version: int, topic: str, state: bytes) -> bytes:
    """The same of an event in parts."""
    return hashlib.sha256(f"{stream}\0{version}\0{topic}\0".encode() + state).digest()


def roll(rolled: bytes, newest: bytes) -> bytes:
    """What ``rolled``, the digests of all earlier events of the ledger, becomes with the newest."""
    return hashlib.sha256(rolled + newest).digest()


def check_link(stored: StoredEvent, previous: bytes) -> None:
    """Check that the event was stored after one whose digest is ``previous``.

    Raises:
        CorruptError: that one, or something before it, is not what it was.
    """
    if stored.state[:DIGEST_BYTES] != previous:
        raise CorruptError(
            f"version {stored.originator_version} of {stored.originator_id} does not follow what "
            "is stored before it: an event was changed, removed or exchanged",
            "trainledger audit verify says what else is damaged",
        )


def decode(stored: StoredEvent) -> Event:
    """The event that the stored bytes say, in its newest form; see ``decode_parts``."""
    return decode_parts(
        str(stored.originator_id), stored.originator_version, stored.topic, stored.state
    )


def decode_parts(stream: str, version: int, topic: str, state: bytes) -> Event:
    """The same of an event in parts.

    A topic of a later version stays unknown, not lost.

    Raises:
        CorruptError: the bytes are not an event.
    """
    payload = state[DIGEST_BYTES:]
    if not upcast.is_known(topic):
        return UnknownEvent(
            originator_id=stream,
            originator_version=version,
            timestamp=datetime.fromtimestamp(0, UTC),
            principal="unknown",
            topic=topic,
            payload=payload,
        )
    try:
        newest, facts = upcast.lift(topic, from_json(payload))
        return REGISTRY[newest].model_validate(
            {**facts, "originator_id": stream, "originator_version": version}
        )
    except (ValueError, TypeError, LookupError):
        raise CorruptError(
            f"version {version} of {stream} is not a {topic}",
            "trainledger audit verify says what else is damaged",
        ) from None


def plan_digest(plan: object) -> str:
    """SHA-256 of a plan, equal for equal plans whatever the order of their fields."""
    return hashlib.sha256(to_json(_sorted(plan), inf_nan_mode="strings")).hexdigest()


def _sorted(value: object) -> object:
    """``value`` with the keys of every mapping in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(each) for each in value]
    return value
