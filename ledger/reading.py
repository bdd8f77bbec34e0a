"""What is stored, as whoever folds, follows or checks it asks for it."""

from collections.abc import Iterator, Sequence

from eventsourcing.persistence import Notification

from ledger import codec, upcast
from ledger.events import Event, Recorded, run_stream
from ledger.store.recorder import LedgerRecorder, Stored

PAGE = 5_000


class Reading:
    """Events of one recorder; safe to use from any thread."""

    def __init__(self, recorder: LedgerRecorder) -> None:
        self._recorder = recorder

    # -- as events

    def read_kinds(self, kinds: Sequence[type[Event]]) -> Iterator[Event]:
        """Every event of these kinds, in the order of the ledger."""
        after, topics = 0, upcast.topics_of(kinds)
        while page := self._recorder.select_notifications(
            after, PAGE, topics=topics, inclusive_of_start=False
        ):
            yield from (codec.decode(each) for each in page)
            after = page[-1].id

    def read(self, after: int, limit: int) -> list[Recorded]:
        """Events after a position, in order."""
        return [
            Recorded(position, codec.decode_parts(stream, version, topic, state))
            for stream, version, topic, state, position in self.read_stored(after, limit)
        ]

    def read_run(
        self, run_id: str, after: int, limit: int, upto: int | None = None
    ) -> list[Recorded]:
        """Events of one run and its jobs after a position, in order; none beyond ``upto``."""
        found = self._recorder.select_family(run_stream(run_id), gt=after, limit=limit, lte=upto)
        return _recorded(found)

    # -- as bytes

    def read_stored(self, after: int, limit: int) -> list[Stored]:
        """Events after a position as they are stored, for whoever checks the bytes."""
        return self._recorder.read_stored(after=after, limit=limit)

    def read_stream(self, stream: str, after: int, limit: int) -> list[Stored]:
        """Events of one stream after a version as they are stored."""
        return self._recorder.read_stream(stream, after=after, limit=limit)

    def newest(self, stream: str) -> Stored | None:
        """The newest event of a stream as it is stored; None where there is no such stream."""
        newest = self._recorder.select_events(stream, desc=True, limit=1)
        if not newest:
            return None
        last = newest[0].originator_version
        return self._recorder.read_stream(stream, after=last - 1, limit=1)[0]

    def read_family(self, stream: str, after: int, limit: int) -> list[Stored]:
        """Events of a stream and of those below it after a position as they are stored."""
        found = self._recorder.select_family(stream, gt=after, limit=limit)
        return [Stored.of(each) for each in found]

    # -- inside

    def _stream(self, stream: str) -> Iterator[Event]:
        """Every event of a stream, in order.

        Raises:
            CorruptError: one of them does not hold the digest of its predecessor.
        """
        after, digest = 0, codec.GENESIS
        while page := self._recorder.select_events(stream, gt=after, limit=PAGE):
            for stored in page:
                codec.check_link(stored, digest)
                digest = codec.digest(stored)
                yield codec.decode(stored)
            after = page[-1].originator_version


def _recorded(notifications: Sequence[Notification]) -> list[Recorded]:
    return [Recorded(each.id, codec.decode(each)) for each in notifications]
