"""Seals: what everything up to a position came to, noted in the ledger itself.

A chain vouches for every event of a stream but the newest, and for no stream as a whole. A seal has
the rolled digest of all events up to a position and the newest event of each stream that grew, so
that a tail cut off, or two streams in each other's place, do not go unnoticed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger import codec
from ledger.errors import CorruptError
from ledger.events import SEALS, Event, Head, LedgerSealed
from ledger.ledger import Ledger
from ledger.run import ENDS, Stamp
from ledger.signing import Key
from ledger.store.recorder import Stored

PRINCIPAL = "sealer"
PAGE = 200  # events at a time: 5,000 leave the processor's cache (twice as long, 2026-11-29)
ENDING_TOPICS = frozenset(kind.TOPIC for kind in ENDS)


class Tip(NamedTuple):
    """The newest event of a stream, as it is stored."""

    version: int
    position: int
    digest: bytes

    def head(self) -> Head:
        """The same as a seal says it."""
        return Head(version=self.version, digest=self.digest.hex())


@dataclass
class Tally:
    """What stored events came to so far, counted one by one in the order of the ledger."""

    position: int = 0
    events: int = 0
    rolled: bytes = codec.GENESIS
    grown: dict[str, Tip] = field(default_factory=dict)  # since the newest seal

    def add(self, stored: Stored) -> Tip:
        """Count the next event, which is now the newest of its stream."""
        stream, version, topic, state, self.position = stored
        digest = codec.digest_of(stream, version, topic, state)
        self.events += 1
        self.rolled = codec.roll(self.rolled, digest)
        tip = self.grown[stream] = Tip(version, self.position, digest)
        return tip


def message(seal: LedgerSealed) -> bytes:
    """What is signed: three lines that anybody can write again from a seal."""
    return f"upto {seal.upto}\nevents {seal.events}\ndigest {seal.digest}\n".encode()


class Sealer:
    """Writes a seal every so many events or seconds, and when a run has ended.

    It goes on from the newest seal, so what a server left unsealed, the next one seals. Seals are
    counted as any event is, but none is written for the sake of seals alone.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        every_events: int,
        every_seconds: float,
        monotonic: Callable[[], float],
        key: Callable[[], Key | None],
    ) -> None:
        """``key`` is asked for each seal anew; None: the seal is not signed."""
        self._ledger = ledger
        self._every_events = every_events
        self._every_seconds = every_seconds
        self._monotonic = monotonic
        self._key = key
        self._version = 0
        self._tally: Tally | None = None  # nothing was read yet
        self._restart(0)

    def work(self) -> None:
        """Count what is new, and seal it where that is due.

        Raises:
            CorruptError: the newest seal cannot be read.
            LedgerError: the seal could not be stored; nothing counted is lost.
        """
        tally = self._tally = self._tally or self._resumed()
        while page := self._ledger.read_stored(tally.position, self._room(tally)):
            for stored in page:
                tally.add(stored)
                self._note(stored)
            if self._is_due(tally):
                self._seal(tally)
        if self._is_due(tally):
            self._seal(tally)

    def _resumed(self) -> Tally:
        """What the newest seal says; there is none in a new ledger."""
        stored = self._ledger.newest(SEALS)
        if stored is None:
            return Tally()
        newest = codec.decode(stored.event())
        if not isinstance(newest, LedgerSealed):
            raise CorruptError(
                f"version {stored.version} of {SEALS} is no seal",
                "trainledger audit verify says what else is damaged",
            )
        self._version = stored.version
        self._restart(newest.events)
        return Tally(newest.upto, newest.events, bytes.fromhex(newest.digest))

    def _restart(self, events: int) -> None:
        self._sealed_events = events
        self._since: float | None = None  # when the first event that waits for a seal was counted
        self._has_end = False  # one of these events ended a run

    def _room(self, tally: Tally) -> int:
        """Events that may be read before a seal is due."""
        return min(PAGE, max(1, self._sealed_events + self._every_events - tally.events))

    def _note(self, stored: Stored) -> None:
        if self._since is None and stored.stream != SEALS:
            self._since = self._monotonic()
        self._has_end = self._has_end or stored.topic in ENDING_TOPICS

    def _is_due(self, tally: Tally) -> bool:
        if self._since is None:  # nothing, or nothing but seals
            return False
        return (
            self._has_end
            or tally.events - self._sealed_events >= self._every_events
            or self._monotonic() - self._since >= self._every_seconds
        )

    def _seal(self, tally: Tally) -> None:
        self._ledger.append(lambda stamp: [self._made(tally, stamp)], principal=PRINCIPAL)
        self._version += 1
        self._restart(tally.events)
        tally.grown.clear()

    def _made(self, tally: Tally, stamp: Stamp) -> Event:
        seal = LedgerSealed(
            originator_id=SEALS,
            originator_version=self._version + 1,
            timestamp=stamp.now,
            principal=stamp.principal,
            upto=tally.position,
            events=tally.events,
            digest=tally.rolled.hex(),
            heads={stream: tip.head() for stream, tip in tally.grown.items()},
        )
        key = self._key()
        if key is None:
            return seal
        signed = {"signature": key.sign(message(seal)), "public_key": key.public}
        return seal.model_copy(update=signed)
