"""Following the ledger: one thread per projection, woken by every commit."""

import threading
from collections.abc import Sequence
from typing import Protocol

from ledger.events import Recorded
from projections.errors import ProjectionError
from projections.source import PAGE, Source

IDLE_SECONDS = 0.2  # between two looks at whether to stop
FIRST_PAUSE_SECONDS = 0.1  # after a failure; each one after it doubles
LONGEST_PAUSE_SECONDS = 5.0


class Projection(Protocol):
    """A read model that knows how far it has come."""

    @property
    def name(self) -> str:
        """What health reports call it."""
        ...

    def position(self) -> int:
        """Of the newest event that it holds."""
        ...

    def apply(self, batch: Sequence[Recorded]) -> None:
        """Take events, in order, exactly once; rows and position are committed together."""
        ...


class Follower:
    """Keeps a projection at the end of the ledger, from ``start`` to ``stop``.

    A failure is remembered until a batch succeeds, and the same batch is tried again: a projection
    never skips an event.
    """

    def __init__(self, source: Source, projection: Projection, *, rest_seconds: float = 0) -> None:
        """``rest_seconds``: of a pause after each batch, that the next one may grow in.

        It ends as soon as somebody waits, so nobody is told less because of it.
        """
        self._source = source
        self._projection = projection
        self._rest_seconds = rest_seconds
        self._wanted = 0  # the furthest position that somebody waited for
        self._moved = threading.Condition()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._follow, name=f"follow-{projection.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End after the batch at hand."""
        self._stopping.set()
        with self._moved:
            self._moved.notify_all()
        self._thread.join()

    @property
    def failure(self) -> Exception | None:
        """Why the projection stands still; None while it moves."""
        return self._failure

    def position(self) -> int:
        """Of the newest event that the projection holds."""
        return self._projection.position()

    def wait_for(self, position: int, timeout: float) -> bool:
        """Wait until the projection holds everything up to ``position``; False: not in time."""
        with self._moved:
            if position > self._wanted:
                self._wanted = position
                self._moved.notify_all()
            self._moved.wait_for(
                lambda: self.position() >= position or self._stopping.is_set(), timeout
            )
        return self.position() >= position

    def _follow(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                self._advance()
            except Exception as error:  # noqa: BLE001 (it was rolled back, and health says why)
                self._failure = error
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                self._failure = None
                pause = FIRST_PAUSE_SECONDS

    def _advance(self) -> None:
        """Apply the next batch, if one comes."""
        position = self.position()
        if not self._source.wait_beyond(position, IDLE_SECONDS):
            self._check_not_ahead(position)
            return
        batch = self._source.read(position, PAGE)
        self._projection.apply(batch)
        with self._moved:
            self._moved.notify_all()
            if len(batch) < PAGE:
                self._moved.wait_for(self._is_wanted, self._rest_seconds)

    def _is_wanted(self) -> bool:
        """Whether somebody waits for what is not there yet, or we are to stop."""
        return self._wanted > self.position() or self._stopping.is_set()

    def _check_not_ahead(self, position: int) -> None:
        """Refuse to wait for a ledger that was put back to an older state than the projection's."""
        end = self._source.position()
        if position > end:
            raise ProjectionError(
                f"it has come to position {position} and the ledger ends at {end}, so it is of "
                "another ledger; trainledger audit rebuild makes it anew"
            )
