"""Proof that the stored events are those that were written: chains, places, seals, signatures.

Events are checked as bytes. Whether each of them can be read as what its topic says is found when
they are replayed, which is why ``unreadable`` is asked only after a replay has failed.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import orjson
from pydantic_core import from_json

from ledger import codec, signing, upcast
from ledger.codec import DIGEST_BYTES
from ledger.errors import CorruptError
from ledger.events import (
    REGISTRY,
    SEALS,
    LedgerSealed,
    RunSubmitted,
    SnapshotCommitted,
    run_stream,
    snapshot_stream,
    submission_stream,
)
from ledger.seals import PAGE, Tally, Tip, message
from ledger.store.recorder import Stored

BEFORE_ALL = -(2**62)  # a stranger may have put an event before the first position or version


class Fault(NamedTuple):
    """Something that is wrong with the stored events."""

    stream: str | None  # None: nothing tells which
    version: int | None
    position: int | None  # None: of an event that is gone
    detail: str  # one sentence


class Sealed(NamedTuple):
    """What the seals say of themselves."""

    seals: int
    upto: int  # position up to which a seal vouches
    signed: int  # of the seals
    keys: tuple[str, ...]  # public ones that signed, in the order of their first seal
    checked: bool  # False: there are signatures, and the package that checks them is missing


class Verdict(NamedTuple):
    """What a check of stored events found."""

    events: int
    streams: int
    position: int  # of the newest event that was checked
    faults: tuple[Fault, ...]  # the first of each stream
    sealed: Sealed
    unknown: dict[str, int]  # events of topics that this version does not know, which is no fault


class Source(Protocol):
    """What is asked of a ledger: its events as they are stored."""

    def read_stored(self, after: int, limit: int) -> Sequence[Stored]:
        """Events after a position."""
        ...

    def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Stored]:
        """Events of one stream after a version."""
        ...

    def read_family(self, stream: str, after: int, limit: int) -> Sequence[Stored]:
        """Events of a stream and of those below it after a position."""
        ...


class Seal(NamedTuple):
    """A seal and where it is stored."""

    position: int
    event: LedgerSealed


def verify(ledger: Source) -> Verdict:
    """Check every event of a ledger, and every seal against all that it covers."""
    walk = _Walk(seals(ledger), only=None)
    for stored in _pages(ledger.read_stored):
        walk.take(stored)
    return walk.verdict()


def verify_streams(ledger: Source, family: str, others: Iterable[str]) -> Verdict:
    """Check a stream with those below it, some others, and what the seals say of just these."""
    names = sorted({*others, SEALS})
    small = [list(_stream(ledger, name)) for name in names]

    def read_family(after: int, limit: int) -> Sequence[Stored]:
        return ledger.read_family(family, after, limit)

    walk = _Walk(seals(ledger), only=(family, frozenset(names)))
    for stored in heapq.merge(_pages(read_family), *small, key=lambda each: each.position):
        walk.take(stored)
    return walk.verdict()


def streams_beside(ledger: Source, run_id: str) -> list[str]:
    """The streams outside a run's own family that tell of it: its submission, its held snapshots.

    What cannot be read names none, since this is asked of damaged ledgers too.
    """
    found: dict[str, None] = {}
    for stored in _stream(ledger, run_stream(run_id)):
        if stored.topic not in _NAMING:
            continue
        with suppress(CorruptError):
            event = codec.decode(stored.event())
            if isinstance(event, RunSubmitted):
                found[submission_stream(event.submission_id)] = None
            elif isinstance(event, SnapshotCommitted):
                found[snapshot_stream(event.snapshot_id)] = None
    return list(found)


def unreadable(ledger: Source) -> Iterator[Fault]:
    """Events that are chained as they should be and still are not what their topics say."""
    for stored in _pages(ledger.read_stored):
        try:
            codec.decode(stored.event())
        except CorruptError as error:
            yield Fault(*_where(stored), str(error))


def seals(ledger: Source) -> list[Seal]:
    """Every seal that can be read, in order; one that cannot breaks the chain of its stream."""
    found = []
    for stored in _stream(ledger, SEALS):
        try:
            event = codec.decode(stored.event())
        except CorruptError:
            continue
        if isinstance(event, LedgerSealed):
            found.append(Seal(stored.position, event))
    return found


class _Walk:
    """One pass over stored events in the order of the ledger, or over those of some streams."""

    def __init__(self, sealed: Sequence[Seal], *, only: tuple[str, frozenset[str]] | None) -> None:
        """``only``: a family of streams and some others; None: the whole ledger."""
        self._seals = sealed
        self._only = only
        self._next = 0  # index of the next seal to be settled
        self._settled = 0  # version of the seal before
        self._edge = self._upto()
        # What no seal covers is read as JSON here; what one covers was written by us, and is read
        # when it is replayed. Reading every event takes a third of the time (measured 2026-11-29).
        self._vouched = max((seal.event.upto for seal in sealed), default=0)
        self._tally = Tally()
        self._events = 0
        self._tips: dict[str, Tip] = {}  # of every stream
        self._faults: dict[str | None, Fault] = {}  # the first of each stream
        self._fresh = False  # a fault was found since the seal before
        self._missing: list[range] = []  # positions without an event
        self._left_out = 0  # events that are known to be gone, by their streams
        self._unknown: Counter[str] = Counter()

    def take(self, stored: Stored) -> None:
        """Check the next event."""
        stream, version, topic, state, position = stored
        while position > self._edge:
            self._settle()
        if position != self._tally.position + 1 and self._only is None:
            self._note_places(stored)
        last, _, digest = self._tips.get(stream, _NOTHING)
        is_next = version == last + 1 and state[:DIGEST_BYTES] == digest
        if not is_next or (position > self._vouched and not _is_json(state)):
            self._add(Fault(*_where(stored), self._fault(stored, last, digest)))
        if topic not in REGISTRY and not upcast.is_known(topic):
            self._unknown[topic] += 1
        self._events += 1
        self._tips[stream] = self._tally.add(stored)

    def verdict(self) -> Verdict:
        """What was found in all."""
        while self._next < len(self._seals):
            self._settle()
        if self._left_out < sum(map(len, self._missing)):  # some are gone from no stream we know
            places = self._missing[0]
            self._add(Fault(None, None, places.start, _gone(places)))
        return Verdict(
            self._events,
            len(self._tips),
            max(self._tally.position, 0),
            tuple(self._faults.values()),
            self._summary(),
            dict(self._unknown),
        )

    # -- events

    def _fault(self, stored: Stored, last: int, digest: bytes) -> str:
        """What is wrong with an event that does not follow the one before it."""
        version = stored.version
        if version != last + 1:
            self._left_out += max(0, version - last - 1)
            return f"version {version} follows version {last}"
        try:
            codec.check_link(stored.event(), digest)
        except CorruptError as error:
            return str(error)
        return f"version {version} of {stored.stream} is no JSON object"

    def _note_places(self, stored: Stored) -> None:
        """Positions before the event that are empty, or a place that there cannot be."""
        expected = max(self._tally.position, 0) + 1
        if stored.position > expected:
            self._missing.append(range(expected, stored.position))
        else:
            detail = f"position {stored.position} stands before the first one"
            self._add(Fault(*_where(stored), detail))

    def _add(self, fault: Fault) -> None:
        self._faults.setdefault(fault.stream, fault)
        self._fresh = True

    # -- seals

    def _upto(self) -> int:
        """The position after which the next seal is settled."""
        if self._next == len(self._seals):
            return 2**63
        return self._seals[self._next].event.upto

    def _settle(self) -> None:
        """Compare what was counted with what the next seal says, and count on from that."""
        seal = self._seals[self._next]
        self._next += 1
        self._edge = self._upto()
        self._check_signature(seal)
        said, tally = seal.event, self._tally
        counted = (said.events, said.digest) == (tally.events, tally.rolled.hex())
        follows = said.originator_version == self._settled + 1  # else one between is unreadable
        self._settled = said.originator_version
        if self._only is not None or not counted:
            self._compare_heads(seal, is_all=follows)
        if self._only is None and not counted and not self._fresh:
            self._add(_of_seal(seal, _other_order(said, tally)))
        if self._only is None and counted and follows and not self._heads_fit(said):
            self._add(_of_seal(seal, "it names newest events that its own digest contradicts"))
        if self._only is None:  # each later seal is judged by what came after this one
            tally.events, tally.rolled = said.events, bytes.fromhex(said.digest)
        tally.grown.clear()
        self._fresh = False

    def _heads_fit(self, said: LedgerSealed) -> bool:
        return said.heads == {stream: tip.head() for stream, tip in self._tally.grown.items()}

    def _compare_heads(self, seal: Seal, *, is_all: bool) -> None:
        """Name the streams whose newest event is not the sealed one.

        ``is_all``: the seal names every stream that grew since the seal before.
        """
        heads = {name: head for name, head in seal.event.heads.items() if self._is_ours(name)}
        for stream, head in heads.items():
            tip = self._tips.get(stream)
            if tip is None or tip.version < head.version:
                there = f"the newest is {tip.version}" if tip else "nothing of the stream is"
                self._left_out += head.version - (tip.version if tip else 0)
                detail = f"version {head.version} was sealed, and {there} stored"
                self._add(Fault(stream, head.version, None, _by(detail, seal)))
            elif (tip.version, tip.digest.hex()) != (head.version, head.digest):
                detail = "what is stored is not what was sealed"
                self._add(Fault(stream, tip.version, tip.position, _by(detail, seal)))
        for stream, tip in self._tally.grown.items():
            if is_all and stream not in heads:
                detail = "it was not there when everything up to it was sealed"
                self._add(Fault(stream, tip.version, tip.position, _by(detail, seal)))

    def _is_ours(self, stream: str) -> bool:
        if self._only is None:
            return True
        family, others = self._only
        return stream == family or stream.startswith(f"{family}/") or stream in others

    def _check_signature(self, seal: Seal) -> None:
        said = seal.event
        if (said.signature is None) != (said.public_key is None):
            self._add(_of_seal(seal, "a signature and its key stand together or not at all"))
        elif said.signature is not None and said.public_key is not None:
            is_checked = signing.is_possible()
            if is_checked and not signing.fits(said.public_key, said.signature, message(said)):
                self._add(_of_seal(seal, "its signature is not of what it says"))

    def _summary(self) -> Sealed:
        keys = [seal.event.public_key for seal in self._seals if seal.event.public_key]
        return Sealed(
            len(self._seals),
            max((seal.event.upto for seal in self._seals), default=0),
            len(keys),
            tuple(dict.fromkeys(keys)),
            signing.is_possible() or not keys,
        )


_NOTHING = Tip(0, 0, codec.GENESIS)
_NAMING = frozenset({RunSubmitted.TOPIC, SnapshotCommitted.TOPIC})


def _pages(read: Callable[[int, int], Sequence[Stored]]) -> Iterator[Stored]:
    after = BEFORE_ALL
    while page := read(after, PAGE):
        yield from page
        after = page[-1].position


def _stream(ledger: Source, name: str) -> Iterator[Stored]:
    after = BEFORE_ALL
    while page := ledger.read_stream(name, after, PAGE):
        yield from page
        after = page[-1].version


def _is_json(state: bytes) -> bool:
    """Whether what follows the digest is a JSON object, with numbers of whatever size."""
    payload = state[DIGEST_BYTES:]
    try:
        return type(orjson.loads(payload)) is dict
    except orjson.JSONDecodeError:
        pass
    try:
        return type(from_json(payload)) is dict
    except ValueError:
        return False


def _where(stored: Stored) -> tuple[str, int, int]:
    return stored.stream, stored.version, stored.position


def _of_seal(seal: Seal, detail: str) -> Fault:
    return Fault(SEALS, seal.event.originator_version, seal.position, detail)


def _by(detail: str, seal: Seal) -> str:
    """A sentence with the seal that says so."""
    return f"{detail} (seal {seal.event.originator_version}, up to position {seal.event.upto})"


def _other_order(said: LedgerSealed, tally: Tally) -> str:
    if said.events != tally.events:
        return (
            f"it covers {said.events} events up to position {said.upto}, "
            f"and {tally.events} are stored"
        )
    return (
        f"the events up to position {said.upto} are not those that it covers, or in another order"
    )


def _gone(places: range) -> str:
    if len(places) == 1:
        return f"position {places.start} is empty: an event was removed"
    return f"positions {places.start} to {places.stop - 1} are empty: events were removed"
