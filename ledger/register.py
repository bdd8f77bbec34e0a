"""A register: a small stream that is read whole, and what it tells of, folded at each change."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ledger.events import Event
from ledger.ledger import Ledger
from ledger.run import Stamp

T = TypeVar("T")


class Told(NamedTuple):
    """An event that is to be written next."""

    kind: type[Event]
    facts: dict[str, Any]  # its own members


class Register(Generic[T]):
    """What a stream tells of; safe to use from any thread."""

    def __init__(self, ledger: Ledger, stream: str, fold: Callable[[Iterable[Event]], T]) -> None:
        self._ledger = ledger
        self._stream = stream
        self._fold = fold
        self.known = fold(ledger.stream(stream))

    def tell(self, decide: Callable[[T, Stamp], Sequence[Told]], *, principal: str) -> None:
        """Store the events that are decided over what is known, all of them or none.

        Raises:
            LedgerError: the decision's own, or another writer was faster each time.
        """

        def events(stamp: Stamp) -> list[Event]:
            before = self._ledger.stream(self._stream)
            after = [
                each.kind(
                    originator_id=self._stream,
                    originator_version=version,
                    timestamp=stamp.now,
                    principal=stamp.principal,
                    **each.facts,
                )
                for version, each in enumerate(
                    decide(self._fold(before), stamp), start=len(before) + 1
                )
            ]
            if after:
                self.known = self._fold([*before, *after])  # before streams wake up for it, and ask
            return after

        with self._ledger.lock:
            try:
                self._ledger.append(events, principal=principal)
            finally:
                self.known = self._fold(self._ledger.stream(self._stream))
