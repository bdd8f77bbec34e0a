"""How long a run stands still when its worker is killed: until the next attempt, and its step."""

import os
import signal

from benchmarks.home import Home, until
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50

KILLS = 11
SCRIPT = [
    {"training": 100_000},
    {"steps": 100_000, "seconds": 0.01, "saveEvery": 5},
]
MILLI = 1e3


def measure(place: Place) -> Result:
    """Kill the worker of one run again and again; times are those of the events."""
    home = place.home
    run_id = home.submit({"sim": SCRIPT}, {"maxAttempts": KILLS + 2, "keepTrainingState": 2})
    pauses = [_killed(home, run_id, attempt) for attempt in range(1, KILLS + 1)]
    home.request("POST", f"/v1/runs/{run_id}:cancel")
    home.ended(run_id)
    opened, trained = zip(*pauses[1:], strict=True)  # the first one warms up
    return Result(
        [
            Figure("kill to next attempt, p50", p50(opened) * MILLI, "ms"),
            Figure("kill to its first step, p50", p50(trained) * MILLI, "ms"),
        ],
        "the scripted trainer; in between the exit is seen and a snapshot verified and copied",
    )


def _killed(home: Home, run_id: str, attempt: int) -> tuple[float, float]:
    """Seconds from the end of the worker to the next attempt, and to that one's first step."""
    until(lambda: home.record(run_id)["savedStep"] and _has_trained(home, run_id, attempt))
    os.kill(home.product.worker(run_id, attempt).pid, signal.SIGKILL)
    until(lambda: _has_trained(home, run_id, attempt + 1))
    events = home.events(run_id)
    died = next(
        each["lastSignAt"]
        for each in events
        if each["kind"] == "attemptClosed" and each["attempt"] == attempt
    )
    opened = _first(events, "attemptOpened", attempt + 1)
    step = _first(events, "stepReported", attempt + 1)
    return home.seconds_between(died, opened), home.seconds_between(died, step)


def _has_trained(home: Home, run_id: str, attempt: int) -> bool:
    attempts = home.record(run_id)["attempts"]
    return len(attempts) >= attempt and attempts[attempt - 1]["firstStep"] is not None


def _first(events: list[dict[str, object]], kind: str, attempt: int) -> str:
    """When an attempt had its first event of a kind."""
    found = next(each for each in events if each["kind"] == kind and each.get("attempt") == attempt)
    return str(found["at"])
