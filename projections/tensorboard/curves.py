"""Where a reader of event files goes on: the fold of a run, remembered at the places read up to."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from projections.source import Source, pages_of
from projections.tensorboard.fold import State, Summary, advance

REMEMBERED = 1_000  # places; a state holds a plan at most


class Page(NamedTuple):
    """Summaries of some events that follow each other."""

    position: int  # of the newest of them
    summaries: list[Summary]


class _Place(NamedTuple):
    run_id: str
    attempt: int | None
    position: int


class Curves:
    """The summaries of any run from any position on.

    What is new depends on what came before. A reader that asks again begins where it stopped, so
    the state there is remembered; where it is not, the run is folded from its beginning.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._states: OrderedDict[_Place, State] = OrderedDict()
        self._lock = threading.Lock()

    def pages(self, run_id: str, *, attempt: int | None, after: int, upto: int) -> Iterator[Page]:
        """What the events of a run after a position, and to position ``upto``, add to its files.

        Args:
            run_id: whose events.
            attempt: tell what this attempt reported, and nothing that others did.
            after: 0, or the ``upto`` of what the reader has.
            upto: a position that the ledger has reached.
        """
        begin, state = self._recalled(_Place(run_id, attempt, after))
        for page in pages_of(self._source, run_id, upto, after=begin):
            told: list[Summary] = []
            for position, event in page:
                state, new = advance(state, event)
                told += new if position > after else []
            if told:
                yield Page(page[-1].position, told)
        self._remember(_Place(run_id, attempt, upto), state)

    def _recalled(self, place: _Place) -> tuple[int, State]:
        """The state at a place, or at the beginning, and which of the two."""
        with self._lock:
            if place in self._states:
                self._states.move_to_end(place)
                return place.position, self._states[place]
        return 0, State(attempt=place.attempt)

    def _remember(self, place: _Place, state: State) -> None:
        with self._lock:
            self._states[place] = state
            self._states.move_to_end(place)
            while len(self._states) > REMEMBERED:
                self._states.popitem(last=False)
