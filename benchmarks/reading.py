"""How long a record takes at 50 requests in a second, while 20 runs report and while none does.

The requests come when they are due, whether the ones before them were answered or not, and each is
timed from when it was due: a server that stands still for a second is slow to 50 of them.
"""

import threading
import time
from collections.abc import Iterator

from benchmarks.home import Home
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99

RUNS = 20
RATE = 50  # requests in a second
SECONDS = 20
ASKERS = 16  # connections; so many answers may be late at once
MILLI = 1e3


def measure(place: Place) -> Result:
    """The records of the runs in turn, while they report, and after they have ended."""
    home = place.busy
    runs = [home.start("steady", SECONDS + 5) for _ in range(RUNS)]
    for run_id in runs:
        home.go(run_id)
    before = sum(home.record(run_id)["observedStep"] for run_id in runs)
    busy = _asked(home, runs)
    reported = sum(home.record(run_id)["observedStep"] for run_id in runs) - before
    for run_id in runs:
        home.ended(run_id)
    idle = _asked(home, runs)
    aim = {"most": 100.0}
    return Result(
        [
            Figure("get while 20 runs report, p50", p50(busy) * MILLI, "ms", p50(idle) * MILLI),
            Figure(
                "get while 20 runs report, p99", p99(busy) * MILLI, "ms", p99(idle) * MILLI, **aim
            ),
            Figure("steps that they reported in a second", reported / SECONDS, "steps/s"),
        ],
        f"{RATE} requests in a second for {SECONDS} s, each timed from when it was due; floor: the"
        " same when the runs have ended",
    )


def _asked(home: Home, runs: list[str]) -> list[float]:
    """Seconds of every request from when it was due to its answer."""
    due = iter(range(RATE * SECONDS))
    turns, seconds, began = threading.Lock(), [], time.perf_counter() + 0.5

    def next_due() -> Iterator[int]:
        while True:
            with turns:
                number = next(due, None)
            if number is None:
                return
            yield number

    def ask() -> None:
        connection, headers = home.connect()
        for number in next_due():
            moment = began + number / RATE
            time.sleep(max(0.0, moment - time.perf_counter()))
            connection.request("GET", f"/v1/runs/{runs[number % len(runs)]}", headers=headers)
            answer = connection.getresponse()
            said = answer.read()
            seconds.append(time.perf_counter() - moment)
            assert answer.status == 200, said
        connection.close()

    askers = [threading.Thread(target=ask) for _ in range(ASKERS)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(seconds) == RATE * SECONDS, len(seconds)
    return seconds
