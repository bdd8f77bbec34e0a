"""Liveness: when an attempt was last heard of, and what follows from its silence."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """What the silence of an attempt means."""

    ALIVE = "alive"
    SILENT = "silent"  # longer than a quarter of its lease
    LOST = "lost"  # longer than its lease


@dataclass(frozen=True)
class Watch:
    """When an attempt was last heard of, and when it last made progress (seconds, monotonic).

    Beats and gauges of a job that hangs keep looking healthy; its step counter does not.
    """

    lease_seconds: float
    startup_timeout_seconds: float
    heard: float
    progressed: float  # newest line of any kind
    stepped: float  # newest rise of the step counter
    step: int
    heard_at: datetime  # the same moment as ``heard`` on the server's clock

    def hear(self, now: float, at: datetime, *, has_lines: bool, step: int) -> "Watch":
        """The watch after a sign of life."""
        return replace(
            self,
            heard=now,
            heard_at=at,
            progressed=now if has_lines else self.progressed,
            stepped=now if step > self.step else self.stepped,
            step=step,
        )

    def silence(self, now: float) -> float:
        """Seconds since the last sign of life."""
        return now - self.heard

    def verdict(self, now: float) -> Verdict:
        """What the silence so far means."""
        if self.silence(now) > self.lease_seconds:
            return Verdict.LOST
        if self.silence(now) > self.lease_seconds / 4:
            return Verdict.SILENT
        return Verdict.ALIVE

    def starts_too_slowly(self, now: float) -> bool:
        """Whether nothing has been reported for longer than the startup timeout."""
        return now - self.progressed > self.startup_timeout_seconds
