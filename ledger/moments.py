"""Where the ledger was at a moment: the position that it had come to by then."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from pydantic_core import from_json

from ledger.codec import DIGEST_BYTES
from ledger.errors import LedgerError
from ledger.store.recorder import Stored

MOST_DIGITS = 20  # no position has as many
SHOWN_CHARACTERS = 80  # of a text that means nothing
AN_EARLIER = "ask for an earlier moment"
HINT = "write a number, or a time such as 2026-11-29T18:00:00Z"


class Moment(NamedTuple):
    """A moment of the past: what the ledger held then, and what its clock said."""

    position: int  # of the newest event by then; 0: there was none yet
    at: datetime


class Source(Protocol):
    """A ledger, as far as this asks."""

    def position(self) -> int:
        """The newest position."""
        ...

    def read_stored(self, after: int, limit: int) -> Sequence[Stored]:
        """Events after a position as they are stored."""
        ...


def past(ledger: Source, text: str, now: datetime) -> Moment:
    """The moment that ``text`` means: a position, or a time in ISO 8601; none still to come.

    A position is the moment at which its event was stored, a time is itself, in UTC where it has no
    zone.

    Raises:
        LedgerError: it is neither, lies in the future, or beyond the end of the ledger.
    """
    end = ledger.position()
    if not _is_position(text):
        at = _time(text)
        if at > now:
            raise LedgerError(f"{_said(at)} is in the future: it is {_said(now)} now", AN_EARLIER)
        return Moment(position_at(ledger, at), at)
    position = int(text)
    if position > end:
        sentence = f"position {position} is beyond the end of the ledger, which is at {end}"
        raise LedgerError(sentence, AN_EARLIER)
    if position == 0:
        raise LedgerError("there is no event at position 0", "positions are from 1")
    (stored,) = ledger.read_stored(position - 1, 1)
    return Moment(position, _stored_at(stored))


def _is_position(text: str) -> bool:
    return text.isdecimal() and len(text) < MOST_DIGITS


def _time(text: str) -> datetime:
    """The moment that ``text`` says; without a zone in UTC.

    Raises:
        LedgerError: it says none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        shown = text[:SHOWN_CHARACTERS]
        raise LedgerError(f"{shown!r} is neither a position nor a time", HINT) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _said(moment: datetime) -> str:
    """A moment as the wire has it, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def position_at(ledger: Source, moment: datetime) -> int:
    """The position of the newest event that was stored by ``moment``; 0 before the first.

    Found by halving, since the server's clock rises with the position; where it was set back, it is
    one of those after which later events are stored.
    """
    low, high = 0, ledger.position()
    while low < high:
        middle = (low + high + 1) // 2
        (stored,) = ledger.read_stored(middle - 1, 1)
        if _stored_at(stored) <= moment:
            low = middle
        else:
            high = middle - 1
    return low


def _stored_at(stored: Stored) -> datetime:
    facts = from_json(stored.state[DIGEST_BYTES:])
    return datetime.fromisoformat(facts["timestamp"])
