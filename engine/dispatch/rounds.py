"""Rounds: a thread that works through a to-do whenever the ledger has grown."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from ledger.ledger import Ledger

TICK_SECONDS = 0.2
PAUSE_SECONDS = 1.0  # after a round that failed

T = TypeVar("T")


def each_of(items: Iterable[T], act: Callable[[T], None]) -> None:
    """Give every item its turn, so that one at fault holds up no other.

    Raises:
        Exception: the first one that ``act`` raised, once all had their turn.
    """
    first: Exception | None = None
    for item in items:
        try:
            act(item)
        except Exception as error:  # noqa: BLE001  raised below
            first = first or error
    if first is not None:
        raise first


class Rounds:
    """Calls ``work`` again and again; what one round could not do, the next one tries."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        work: Callable[[], None],
        *,
        patience: Callable[[], float] = lambda: TICK_SECONDS,
        rest_seconds: float = 0.0,
    ) -> None:
        """``patience``: seconds until the next round, where the ledger does not grow before.

        ``rest_seconds``: between rounds while it grows, for what need not see each event at once.
        """
        self._ledger = ledger
        self._work = work
        self._patience = patience
        self._rest_seconds = rest_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.failure: Exception | None = None  # what the newest round died of, if it did

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        position = -1
        while not self._stopped.is_set():
            position, before = self._ledger.position(), position
            try:
                self._work()
                self.failure = None
            except Exception as error:  # noqa: BLE001  info shows it
                self.failure = error
                self._stopped.wait(PAUSE_SECONDS)
            if self._rest_seconds and position != before:
                self._stopped.wait(self._rest_seconds)
            else:
                self._ledger.wait_beyond(position, self._patience())
