"""Events in memory: for tests, and for replays that nobody keeps."""

from collections.abc import Sequence
from typing import Any

from eventsourcing.persistence import IntegrityError, Notification, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder

from ledger.store.recorder import LedgerRecorder, Stored, in_family


class MemoryRecorder(LedgerRecorder, POPOApplicationRecorder):
    """The library's recorder in memory, which here refuses holes as the databases do."""

    subscribe = LedgerRecorder.subscribe

    def _assert_uniqueness(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        super()._assert_uniqueness(stored_events, **kwargs)
        ends: dict[str, int] = {}
        for each in stored_events:
            stream = str(each.originator_id)
            end = ends.get(stream, len(self._stored_events_index[stream]))
            if each.originator_version != end + 1:
                raise IntegrityError(
                    f"version {each.originator_version} of {stream} does not follow {end}"
                )
            ends[stream] = each.originator_version

    def select_family(
        self, stream: str, *, gt: int, limit: int, lte: int | None = None
    ) -> Sequence[Notification]:
        """Events of ``stream`` and of the streams below it after position ``gt``, in order."""
        later = self.select_notifications(
            gt, len(self._stored_events) + 1, lte, inclusive_of_start=False
        )
        return [each for each in later if in_family(stream, str(each.originator_id))][:limit]

    def read_stored(self, *, after: int, limit: int) -> list[Stored]:
        """Events of the whole ledger after a position, in order."""
        found = self.select_notifications(after, limit, inclusive_of_start=False)
        return [Stored.of(each) for each in found]

    def read_stream(self, stream: str, *, after: int, limit: int) -> list[Stored]:
        """Events of ``stream`` alone after a version, in order."""
        every = self.read_stored(after=0, limit=len(self._stored_events) + 1)
        return [each for each in every if each.stream == stream and each.version > after][:limit]
