"""What the ledger asks of a database: the library's recorder, and reading a family of streams."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

from eventsourcing.persistence import (
    ApplicationRecorder,
    Notification,
    NotSupportedError,
    Subscription,
)


class Stored(NamedTuple):
    """An event as the database has it: much faster to make than the library's, for long reads."""

    stream: str
    version: int
    topic: str
    state: bytes
    position: int

    @classmethod
    def of(cls, found: Notification) -> Self:
        """What the library made of the same event."""
        stream, version = str(found.originator_id), found.originator_version
        return cls(stream, version, found.topic, found.state, found.id)

    def event(self) -> Notification:
        """The same as the library has it."""
        return Notification(self.stream, self.version, self.topic, self.state, self.position)


class LedgerRecorder(ApplicationRecorder):
    """Stores events of several streams in one transaction; versions of a stream have no holes."""

    @abstractmethod
    def select_family(
        self, stream: str, *, gt: int, limit: int, lte: int | None = None
    ) -> Sequence[Notification]:
        """Events of ``stream`` and of those below it after position ``gt``, in order.

        With ``lte`` none beyond that position, and nothing beyond it is looked at. Large events may
        come in smaller numbers than ``limit``, as in the next two: none means that there are none.
        """

    @abstractmethod
    def read_stored(self, *, after: int, limit: int) -> list[Stored]:
        """Events of the whole ledger after a position, in order."""

    @abstractmethod
    def read_stream(self, stream: str, *, after: int, limit: int) -> list[Stored]:
        """Events of ``stream`` alone after a version, in order."""

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        """Refuse: one thread a subscriber is not how this ledger is followed.

        Raises:
            NotSupportedError: always; ``Ledger.wait_beyond`` wakes any number of readers.
        """
        raise NotSupportedError(f"no subscription from {gt} to {topics}: use Ledger.wait_beyond")


def in_family(stream: str, member: str) -> bool:
    """Whether ``member`` is ``stream`` or lies below it."""
    return member == stream or member.startswith(f"{stream}/")
