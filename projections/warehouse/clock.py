"""How far the time of each run has come with each event: what device time is counted by.

Clocks disagree, so a run's time is the newest moment that it has reached; it never runs backwards
(projections/documents/timing.py). An update takes the time since the one before it, or since
training began (projections/documents/cost.py). Both depend on earlier events of the run, so one
number is kept for each run, and two for its newest attempt; a file that is opened again has them.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    Event,
    JobStarted,
    Restored,
    RunSubmitted,
    StepReported,
    TrainingBegan,
)
from projections.documents import timing

REMEMBERED = 4096  # runs whose time is kept between two batches

# What is stored of a run. Nothing can be added to the attempts before its newest one: they are
# closed.
STORED = """
WITH newest AS (
    SELECT max(attempt) AS attempt FROM attempt WHERE run_id = $run
), said AS (
    SELECT
        reached_at, spent_ms, attempt,
        stream <> 'run/' || run_id OR kind IN ('attemptOpened', 'jobStarted') AS is_sign
    FROM event
    WHERE run_id = $run
    UNION ALL
    SELECT reached_at, spent_ms, attempt, true FROM metric WHERE run_id = $run
)
SELECT
    coalesce(epoch_ms(max(s.reached_at)), 0),
    coalesce(epoch_ms(max(s.reached_at) FILTER (s.is_sign AND s.attempt = n.attempt)), 0),
    epoch_ms(max(s.reached_at) FILTER (s.spent_ms IS NOT NULL AND s.attempt = n.attempt))
FROM said AS s CROSS JOIN newest AS n
"""


class Tick(NamedTuple):
    """What an event means for the time of its run, in milliseconds."""

    reached: int | None = None  # since 1970; None: the event tells no time, or is of no run
    spent: int | None = None  # since the update before it; None: it is no part of training
    released: int | None = None  # since 1970: when an attempt that closes gave its devices back


@dataclass
class Time:
    """Of one run, in milliseconds since 1970."""

    now: int
    signed: int  # when its newest attempt last showed that it was alive
    counted: int | None  # up to when updates have their time; None: training has not begun


class Clock:
    """The time of every run, moved on by each of its events in order."""

    def __init__(self, stored: Callable[[str], Time]) -> None:
        """``stored`` answers the time of a run as of the events that were seen before."""
        self._stored = stored
        self._times: OrderedDict[str, Time] = OrderedDict()  # least recently heard of first

    def see(self, event: Event) -> Tick:
        """Take the next event."""
        if not event.originator_id.startswith("run/"):
            return Tick()
        time = self._time(event)
        time.now = timing.reached(time.now, event)
        if isinstance(event, StepReported):  # as nearly all of them are
            time.signed = time.now
            return Tick(time.now, _spend(time))
        if type(event) in timing.TIMELESS:
            return Tick()
        if isinstance(event, AttemptOpened):
            time.counted = None
        spent = _spend(time) if _is_training(event, time) else None
        released = _released(event, time) if isinstance(event, AttemptClosed) else None
        if _is_sign(event):
            time.signed = time.now
        return Tick(time.now, spent, released)

    def trim(self) -> None:
        """Keep the runs that were heard of last, once everything that was seen is stored."""
        while len(self._times) > REMEMBERED:
            self._times.popitem(last=False)

    def forget(self) -> None:
        """Begin again with what is stored."""
        self._times.clear()

    def _time(self, event: Event) -> Time:
        run_id = event.run_id
        time = self._times.pop(run_id, None)
        if time is None:
            is_new = isinstance(event, RunSubmitted)
            time = Time(now=0, signed=0, counted=None) if is_new else self._stored(run_id)
        self._times[run_id] = time
        return time


def _spend(time: Time) -> int:
    """Count the time up to now; none has passed where training begins."""
    spent = 0 if time.counted is None else time.now - time.counted
    time.counted = time.now
    return spent


def _is_training(event: Event, time: Time) -> bool:
    """Whether training begins with it, or, as with each update, the time up to it was training."""
    match event:
        case TrainingBegan():
            return time.counted is None
        case Restored(attempt=None):
            return time.counted is not None
    return False


def _released(event: AttemptClosed, time: Time) -> int:
    """When the devices were free: with the last sign of life, and never after the end."""
    return min(max(timing.millis(event.last_sign_at), time.signed), time.now)


def _is_sign(event: Event) -> bool:
    """Whether the attempt is alive: it said so itself, or its job was just handed over."""
    return event.originator_id.count("/") == 2 or isinstance(event, (AttemptOpened, JobStarted))
