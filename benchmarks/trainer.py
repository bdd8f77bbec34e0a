"""The trainer of the benchmarks: a command engine that only reports, in the manner it is told.

    python -m benchmarks.trainer fast STEPS       as fast as it can
    python -m benchmarks.trainer rhythm STEPS     one step every 50 ms, its moment among its numbers
    python -m benchmarks.trainer steady SECONDS   five steps a second, as many runs at once do
    python -m benchmarks.trainer die STEPS        killed straight after the last call returned
    python -m benchmarks.trainer timed ROUNDS     each call timed, in turns with the floor
    python -m benchmarks.trainer rollouts STEPS   64 rollouts for each step, each call timed

Except for ``die`` it begins when the file ``go`` is in its output folder.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import IO

from benchmarks.steps import measured
from benchmarks.texts import scored
from engine.client import Reporter, output_folder

RHYTHM_SECONDS = 0.05
STEADY_SECONDS = 0.2
SENT = "padding_share"  # the number that gives way to the moment of the call
ROUND_STEPS = 300
WORK_SECONDS = 0.002  # before each timed call, so that each is forwarded by itself


def fast(report: Reporter, steps: int) -> None:
    """Report without a pause, and leave the moment of the first call."""
    (output_folder() / "began").write_text(repr(time.time()))
    for step in range(1, steps + 1):
        report.step(step, measured(step))
    (output_folder() / "ended").write_text(repr(time.time()))
    report.completed()


def rhythm(report: Reporter, steps: int) -> None:
    """Report as often as a small model would."""
    for step in range(1, steps + 1):
        time.sleep(RHYTHM_SECONDS)
        numbers = measured(step)
        report.step(step, numbers | {SENT: time.time()})
    report.completed()


def steady(report: Reporter, seconds: int) -> None:
    """Report for so long, as slowly as a model of some size would."""
    for step in range(1, round(seconds / STEADY_SECONDS) + 1):
        time.sleep(STEADY_SECONDS)
        report.step(step, measured(step))
    report.completed()


def die(report: Reporter, steps: int) -> None:
    """Report, and be killed before another instruction."""
    for step in range(1, steps + 1):
        report.step(step, measured(step))
    os.kill(os.getpid(), signal.SIGKILL)


def timed(report: Reporter, rounds: int) -> None:
    """Leave the seconds of each call and of each write of the floor, round by round."""
    times: list[dict[str, list[float]]] = []
    with (output_folder() / "floor.jsonl").open("w") as plain:
        for number in range(rounds):
            first = number * ROUND_STEPS + 1
            ours = _round(first, report.step)
            floor = _round(first, lambda _, numbers: write(plain, numbers))
            times.append({"ours": ours, "floor": floor})
    (output_folder() / "times.new").write_text(json.dumps(times))
    (output_folder() / "times.new").replace(output_folder() / "times.json")
    report.completed()


def rollouts(report: Reporter, steps: int) -> None:
    """Leave the moment of the first call, and the seconds of each."""
    every = [scored() for _ in range(steps)]
    (output_folder() / "began").write_text(repr(time.time()))
    seconds = []
    for step, each in enumerate(every, start=1):
        began = time.perf_counter()
        report.rollouts(step, each)
        seconds.append(time.perf_counter() - began)
        report.step(step, measured(step))
    (output_folder() / "times.json").write_text(json.dumps(seconds))
    report.completed()


def write(plain: IO[str], numbers: dict[str, float]) -> None:
    """The floor: what any trainer does that logs to a file."""
    plain.write(json.dumps(numbers) + "\n")
    plain.flush()


def _round(first: int, call: Callable[[int, dict[str, float]], None]) -> list[float]:
    seconds = []
    for step in range(first, first + ROUND_STEPS):
        numbers = measured(step)
        _work()
        began = time.perf_counter()
        call(step, numbers)
        seconds.append(time.perf_counter() - began)
    return seconds


def _work() -> None:
    """Keep the processor busy as an update would; one that slept is slow at first."""
    until = time.perf_counter() + WORK_SECONDS
    while time.perf_counter() < until:
        pass


MANNERS = {
    "fast": fast,
    "rhythm": rhythm,
    "steady": steady,
    "die": die,
    "timed": timed,
    "rollouts": rollouts,
}


def main(manner: str, number: int) -> None:
    """Report in a manner, once it is time."""
    report = Reporter.from_environment()
    report.training()
    while manner != "die" and not (output_folder() / "go").exists():
        time.sleep(0.005)
    MANNERS[manner](report, number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
