"""A result: figures of one benchmark, each beside its floor and its aim."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured number; its floor is what the same work costs without us."""

    name: str
    ours: float
    unit: str
    floor: float | None = None
    most_ratio: float | None = None  # aims: ours / floor is at most this,
    most: float | None = None  # ours is at most this,
    least: float | None = None  # ours is at least this

    @property
    def ratio(self) -> float | None:
        """Ours in floors; None where there is no floor."""
        return self.ours / self.floor if self.floor else None

    @property
    def aim(self) -> str:
        """The aim in words; empty for what is only told."""
        if self.most_ratio is not None:
            return f"ratio <= {self.most_ratio:g}"
        if self.most is not None:
            return f"<= {self.most:g} {self.unit}"
        return f">= {self.least:g} {self.unit}" if self.least is not None else ""

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.most_ratio is not None:
            return self.ratio is not None and self.ratio <= self.most_ratio
        if self.most is not None:
            return self.ours <= self.most
        return self.ours >= self.least if self.least is not None else None


@dataclass(frozen=True)
class Result:
    """What one benchmark found, and what has to be known to read it."""

    figures: Sequence[Figure]
    note: str = ""


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
