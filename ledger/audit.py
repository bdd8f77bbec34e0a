"""Proof that the stored events are those that were written: every chain, link by link."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from eventsourcing.persistence import Notification

from ledger import codec
from ledger.errors import CorruptError

PAGE = 5_000


class Fault(NamedTuple):
    """The first thing that is wrong with a stream."""

    stream: str
    version: int
    position: int
    detail: str  # one sentence


class Verdict(NamedTuple):
    """What a check of every chain found."""

    events: int
    streams: int
    position: int  # of the newest event that was checked
    faults: tuple[Fault, ...]  # the first of each stream


def verify(read_stored: Callable[[int, int], Sequence[Notification]]) -> Verdict:
    """Check every stream of a ledger: gapless versions, links, and that each event can be read.

    The newest event of a stream has no successor that vouches for it; seals will.
    """
    ends: dict[str, tuple[int, bytes]] = {}
    faults: dict[str, Fault] = {}
    events = position = 0
    for stored in _all(read_stored):
        stream = str(stored.originator_id)
        version, digest = ends.get(stream, (0, codec.GENESIS))
        detail = _fault(stored, version, digest)
        if detail and stream not in faults:
            faults[stream] = Fault(stream, stored.originator_version, stored.id, detail)
        ends[stream] = (stored.originator_version, codec.digest(stored))
        events, position = events + 1, stored.id
    return Verdict(events, len(ends), position, tuple(faults.values()))


def _all(read_stored: Callable[[int, int], Sequence[Notification]]) -> Iterator[Notification]:
    after = 0
    while page := read_stored(after, PAGE):
        yield from page
        after = page[-1].id


def _fault(stored: Notification, version: int, digest: bytes) -> str:
    """What is wrong with an event that should follow ``version``; empty when nothing is."""
    if stored.originator_version != version + 1:
        return f"version {stored.originator_version} follows version {version}"
    try:
        codec.check_link(stored, digest)
        codec.decode(stored)
    except CorruptError as error:
        return str(error)
    return ""
