"""How long 100,000 steps take from the trainer's first call until all can be queried."""

from benchmarks.place import FLOOR_COMMITS, LONG_STEPS, Place
from benchmarks.result import Figure, Result, p50


def measure(place: Place) -> Result:
    """The long run against raw SQLite."""
    run = place.long
    commits = p50(run.commit_seconds) * LONG_STEPS
    batched = p50(run.batched_seconds) * LONG_STEPS
    return Result(
        [
            Figure("100,000 steps, until queryable", run.seconds, "s", commits, most_ratio=1.2),
            Figure("the same, floor of 1,000 a commit", run.seconds, "s", batched),
            Figure("the trainer's own part of it", run.said_seconds, "s"),
        ],
        "floor: SQLite, WAL, synchronous=FULL, a commit per step, scaled from"
        f" {FLOOR_COMMITS:,} commits",
    )
