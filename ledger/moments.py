"""Where the ledger was at a moment: the position that it had come to by then."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from pydantic_core import from_json

from ledger.codec import DIGEST_BYTES
from ledger.errors import LedgerError
from ledger.store.recorder import Stored

MOST_DIGITS = 20  # no position has as many


class Source(Protocol):
    """A ledger, as far as this asks."""

    def position(self) -> int:
        """The newest position."""
        ...

    def read_stored(self, after: int, limit: int) -> Sequence[Stored]:
        """Events after a position as they are stored."""
        ...


def position_of(ledger: Source, text: str) -> int:
    """The position that ``text`` means: its number, or the one at a moment in ISO 8601.

    Without a zone a moment is in UTC. What lies beyond the end of the ledger means its end.

    Raises:
        LedgerError: it is neither.
    """
    end = ledger.position()
    if text.isdecimal() and len(text) < MOST_DIGITS:
        return min(int(text), end)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LedgerError(
            f"{text[:80]!r} is neither a position nor a time",
            "write a number, or a time such as 2026-11-29T18:00:00Z",
        ) from None
    return position_at(ledger, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


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
