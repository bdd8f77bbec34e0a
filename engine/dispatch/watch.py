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
    """When an attempt was last heard of, and when it last made progress (seconds, monotonic)."""

    lease_seconds: float
    startup_timeout_seconds: float
    heard: float
    progressed: float
    heard_at: datetime  # the same moment as ``heard`` on the server's clock

    def hear(self, now: float, at: datetime, *, progress: bool) -> "Watch":
        """The watch after a sign of life."""
        return replace(
            self, heard=now, heard_at=at, progressed=now if progress else self.progressed
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
