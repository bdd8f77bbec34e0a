"""What the ledger asks of a database: the library's recorder, and reading a family of streams."""

from abc import abstractmethod
from collections.abc import Sequence

from eventsourcing.persistence import (
    ApplicationRecorder,
    Notification,
    NotSupportedError,
    Subscription,
)


class LedgerRecorder(ApplicationRecorder):
    """Stores events of several streams in one transaction; versions of a stream have no holes."""

    @abstractmethod
    def select_family(self, stream: str, *, gt: int, limit: int) -> Sequence[Notification]:
        """Events of ``stream`` and of the streams below it after position ``gt``, in order."""

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
