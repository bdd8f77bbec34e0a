"""What a projection asks of the ledger."""

from collections.abc import Iterator
from typing import Protocol

from ledger.events import Recorded

PAGE = 5_000  # events that are read at a time


class Source(Protocol):
    """Events in ledger order. All positions are from 1; ``after`` 0 is the beginning."""

    def position(self) -> int:
        """The newest position; 0 when nothing was recorded yet."""
        ...

    def read(self, after: int, limit: int) -> list[Recorded]:
        """At most ``limit`` events beyond ``after``, in order."""
        ...

    def read_run(
        self, run_id: str, after: int, limit: int, upto: int | None = None
    ) -> list[Recorded]:
        """The same, of one run: its life and what its attempts reported; none beyond ``upto``."""
        ...

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Wait for an event beyond ``position``; False when none came in ``timeout`` seconds."""
        ...


def pages(source: Source, upto: int) -> Iterator[list[Recorded]]:
    """Every event to position ``upto``, a page at a time."""
    after = 0
    while after < upto and (page := source.read(after, PAGE)):
        after = page[-1].position
        yield [each for each in page if each.position <= upto]


def pages_of(source: Source, run_id: str, upto: int, after: int = 0) -> Iterator[list[Recorded]]:
    """Every event of one run after a position and to position ``upto``, a page at a time."""
    while after < upto and (page := source.read_run(run_id, after, PAGE, upto)):
        after = page[-1].position
        yield page


def events_of(source: Source, run_id: str, upto: int, after: int = 0) -> Iterator[Recorded]:
    """Every event of one run after a position and to position ``upto``."""
    for page in pages_of(source, run_id, upto, after):
        yield from page


class Behind(Protocol):
    """A projection that may lag behind the ledger."""

    def position(self) -> int:
        """Of the newest event that it holds."""
        ...

    def apply(self, batch: list[Recorded]) -> None:
        """Take events, in order, exactly once."""
        ...


def catch_up(projection: Behind, source: Source, upto: int) -> None:
    """Apply every event to position ``upto`` that the projection does not hold."""
    while projection.position() < upto:
        page = source.read(projection.position(), PAGE)
        if not page:
            return
        projection.apply([each for each in page if each.position <= upto])
