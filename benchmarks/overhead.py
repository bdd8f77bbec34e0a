"""What reporting costs an update of the default engine: ``trl_overhead.py`` as a benchmark."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.place import Place
from benchmarks.result import Figure, Result

SCRIPT = Path(__file__).with_name("trl_overhead.py")
ROUNDS = 2
UPDATES = 2


def measure(_: Place) -> Result:
    """Medians that the script prints; it trains in turns with and without our callback."""
    command = [sys.executable, str(SCRIPT), f"--rounds={ROUNDS}", f"--updates={UPDATES}"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Result(
        [
            Figure("CPU of a TRL update, with our callback", _median(said, "ratio"), "", 1.0),
            Figure("share of an update inside it", _median(said, "share inside the callback"), ""),
        ],
        "floor: the same training without our callback; so few rounds tell the ratio to 10 %",
    )


def _median(said: str, what: str) -> float:
    found = re.search(rf"^median {what}\s+([\d.]+)$", said, re.MULTILINE)
    assert found is not None, said
    return float(found[1])
