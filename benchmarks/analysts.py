"""What three analysts who read the published copy in loops cost the one who writes, and themselves.

The writer speaks as the runner of a run does, whose own runner stands still meanwhile: ten
deliveries a second, each timed from when it was due until it was acknowledged.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.home import ROOT, Home, until
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99
from benchmarks.steps import measured
from engine.runner import job
from engine.runner.delivery import Delivery

RATE = 10  # deliveries in a second
STEPS = 20  # of one delivery
SECONDS = 60  # with the analysts; half of it before, and half of it after, without them
ANALYSTS = 3
MILLI = 1e3


def measure(place: Place) -> Result:
    """Deliveries without analysts, with them, and without them again."""
    home = place.read
    writer = Writer(home)
    until((home.product.home / "analytics.duckdb").exists)
    before = writer.write(SECONDS / 2)
    analysts = [_analyst(home) for _ in range(ANALYSTS)]
    during = writer.write(SECONDS)
    found = [json.loads(each.communicate()[0]) for each in analysts]
    alone = [*before, *writer.write(SECONDS / 2)]
    failures = [sentence for each in found for sentence in each["failures"]]
    turns = sum(each["turns"] for each in found)
    return Result(
        [
            Figure("delivery, p50", p50(during) * MILLI, "ms", p50(alone) * MILLI),
            Figure("delivery, p99", p99(during) * MILLI, "ms", p99(alone) * MILLI, most_ratio=2.0),
            Figure("deliveries that failed", writer.failed, "", most=0.0),
            Figure("times that analysts opened the copy", turns, ""),
            Figure("times that they could not", len(failures), "", most=0.0),
        ],
        f"{RATE} deliveries of {STEPS} steps in a second, {ANALYSTS} analysts for {SECONDS} s;"
        f" floor: the same without analysts{''.join(f'; {each}' for each in failures[:1])}",
    )


class Writer:
    """Delivers steps of one run, in the place of its runner."""

    def __init__(self, home: Home) -> None:
        run_id = home.start("rhythm", 1)  # it waits for a word that never comes
        until(lambda: home.record(run_id)["phase"] == "TRAINING")
        folder = home.product.folder(run_id)
        os.kill(json.loads((folder / "runner.json").read_text())["pid"], signal.SIGSTOP)
        self.failed = 0
        self._delivery = Delivery(job.load(folder))
        self._runner = {"host": "here", "pid": os.getpid(), "startedAt": time.time()}
        self._step = 0

    def write(self, seconds: float) -> Sequence[float]:
        """Deliver for so long; the seconds of each delivery."""
        began, taken = time.perf_counter(), []
        for number in range(round(seconds * RATE)):
            due = began + number / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            self._deliver()
            taken.append(time.perf_counter() - due)
        return taken

    def _deliver(self) -> None:
        steps = range(self._step + 1, self._step + STEPS + 1)
        lines = [
            json.dumps({"kind": "step", "step": step, "measured": measured(step)}) for step in steps
        ]
        body = {"first": steps[0] + 1, "lines": lines, "runner": self._runner, "exit": None}
        answer = self._delivery.post(body)
        self.failed += answer.taken != steps[-1] + 1
        self._step = steps[-1]


def _analyst(home: Home) -> subprocess.Popen[bytes]:
    copy: Path = home.product.home / "analytics.duckdb"
    command = [sys.executable, "-m", "benchmarks.analyst", str(copy), str(SECONDS)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
