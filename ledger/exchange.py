"""Events as lines of text that anybody can read and check, and a ledger made of them again.

A line is JSON with ``position``, ``stream``, ``version``, ``topic``, ``previous`` and ``digest``
(of the predecessor in the stream and of the event), and at its end ``state``, where the stored
bytes stand as they are: only so do they still have their digest. docs/audit.md has more of it.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson
from eventsourcing.persistence import StoredEvent

from ledger import codec
from ledger.codec import DIGEST_BYTES
from ledger.errors import CorruptError
from ledger.store.recorder import LedgerRecorder, Stored

PAGE = 5_000
MARK = b',"state":'  # at its first place in a line: it cannot stand inside a text before it
BASE64 = "stateBase64"  # instead of state, where the bytes are no JSON on one line
HINT = "export the ledger again; nothing was imported"
_DIGEST = re.compile("[0-9a-f]{64}")


class Tale(NamedTuple):
    """What a number of lines come to."""

    events: int
    position: int  # of the newest event
    digest: str  # rolled over the digests of all events, as a seal has it
    streams: int


def write(
    read_stored: Callable[[int, int], list[Stored]], upto: int, out: Callable[[bytes], Any]
) -> Tale:
    """Write every event to position ``upto``, a line each."""
    count, position, rolled, streams = 0, 0, codec.GENESIS, set()
    while position < upto and (page := read_stored(position, min(PAGE, upto - position))):
        for stored in page:
            digest = codec.digest(stored.event())
            rolled = codec.roll(rolled, digest)
            streams.add(stored.stream)
            out(line(stored, digest))
        count, position = count + len(page), page[-1].position
    return Tale(count, position, rolled.hex(), len(streams))


def line(stored: Stored, digest: bytes) -> bytes:
    """An event as a line."""
    payload = stored.state[DIGEST_BYTES:]
    head = orjson.dumps(
        {
            "position": stored.position,
            "stream": stored.stream,
            "version": stored.version,
            "topic": stored.topic,
            "previous": stored.state[:DIGEST_BYTES].hex(),
            "digest": digest.hex(),
        }
    )[:-1]
    if _fits_a_line(payload):
        return head + MARK + payload + b"}\n"
    return head + f',"{BASE64}":"{base64.b64encode(payload).decode()}"}}\n'.encode()


def _fits_a_line(payload: bytes) -> bool:
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True


def load(recorder: LedgerRecorder, lines: Iterable[bytes]) -> Tale:
    """Store the events of an export in an empty ledger, where each gets the place that it had.

    Raises:
        CorruptError: a line is not what was exported, or one is missing.
    """
    if recorder.max_notification_id() is not None:
        raise ValueError("only an empty ledger can be made equal to another")
    tips: dict[str, tuple[int, bytes]] = {}
    count, rolled = 0, codec.GENESIS
    for batch in _batches(_events(lines)):
        for stored in batch:
            count += 1
            if stored.position != count:
                raise CorruptError(f"position {count} is missing in the export", HINT)
            digest = codec.digest(stored.event())
            _check_place(stored, *tips.get(stored.stream, (0, codec.GENESIS)))
            tips[stored.stream] = (stored.version, digest)
            rolled = codec.roll(rolled, digest)
        recorder.insert_events(
            [StoredEvent(each.stream, each.version, each.topic, each.state) for each in batch]
        )
    return Tale(count, count, rolled.hex(), len(tips))


def _check_place(stored: Stored, version: int, digest: bytes) -> None:
    if stored.version != version + 1:
        raise CorruptError(
            f"in {stored.stream} version {stored.version} follows version {version}", HINT
        )
    codec.check_link(stored.event(), digest)


def _batches(events: Iterator[Stored]) -> Iterator[list[Stored]]:
    batch: list[Stored] = []
    for each in events:
        batch.append(each)
        if len(batch) == PAGE:
            yield batch
            batch = []
    if batch:
        yield batch


def _events(lines: Iterable[bytes]) -> Iterator[Stored]:
    for number, text in enumerate(lines, start=1):
        try:
            stored, digest = _read(text)
        except (ValueError, KeyError, TypeError):
            raise CorruptError(f"line {number} of the export is no event", HINT) from None
        if codec.digest(stored.event()).hex() != digest:
            raise CorruptError(
                f"line {number} of the export, version {stored.version} of {stored.stream}, does "
                "not have its digest: it was changed, if only its spaces",
                HINT,
            )
        yield stored


def _read(text: bytes) -> tuple[Stored, str]:
    """The event of a line, and the digest that the line claims for it."""
    head, mark, rest = text.rstrip(b"\n").partition(MARK)
    if mark and not rest.endswith(b"}"):
        raise ValueError
    facts = orjson.loads(head + b"}" if mark else head)
    payload = rest[:-1] if mark else _decoded(facts[BASE64])
    for name in ("previous", "digest"):
        if not _DIGEST.fullmatch(facts[name]):
            raise ValueError
    numbers = (facts["version"], facts["position"])
    texts = (facts["stream"], facts["topic"])
    if {int} != set(map(type, numbers)) or {str} != set(map(type, texts)):
        raise ValueError
    state = bytes.fromhex(facts["previous"]) + payload
    return Stored(texts[0], numbers[0], texts[1], state, numbers[1]), facts["digest"]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error
