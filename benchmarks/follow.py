"""How long a step takes from the trainer's call to the line that a follower reads."""

import json
import time

from benchmarks.home import Home
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99
from benchmarks.trainer import SENT

STEPS = 200
MILLI = 1e3


def measure(place: Place) -> Result:
    """Read ``trainledger runs wait -o json`` while a trainer reports every 50 ms."""
    seconds = _delays(place.home)
    return Result(
        [
            Figure("step to line of runs wait, p50", p50(seconds) * MILLI, "ms", most=15.0),
            Figure("step to line of runs wait, p99", p99(seconds) * MILLI, "ms"),
        ],
        f"{STEPS} steps, one every 50 ms; from before the call to the line in the reader's pipe",
    )


def _delays(home: Home) -> list[float]:
    """Seconds of each step from its call to its line."""
    run_id = home.start("rhythm", STEPS)
    follower = home.product.popen("runs", "wait", run_id, "-o", "json")
    assert follower.stdout is not None
    delays = []
    for line in follower.stdout:
        arrived = time.time()
        event = json.loads(line) if line.startswith('{"') else {}  # the record has many lines
        if event.get("kind") == "trainingBegan":
            home.go(run_id)
        elif event.get("kind") == "stepReported":
            delays.append(arrived - event["measured"][SENT])
    follower.communicate()
    assert len(delays) == STEPS, len(delays)
    return delays
