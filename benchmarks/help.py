"""How long ``trainledger --help`` takes."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.place import Place
from benchmarks.result import Figure, Result

TRIES = 5


def measure(_: Place) -> Result:
    """The installed command, in turns with an interpreter that does nothing."""
    command = [str(Path(sys.executable).with_name("trainledger")), "--help"]
    nothing = [sys.executable, "-c", "pass"]
    pairs = [(_seconds(command), _seconds(nothing)) for _ in range(TRIES)]
    ours, floor = (min(each) for each in zip(*pairs, strict=True))
    return Result(
        [Figure("trainledger --help, best of 5", ours, "s", floor, most=0.3)],
        "floor: python -c pass",
    )


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
