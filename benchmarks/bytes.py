"""What a step takes on disk once its run is over and the server has stopped."""

import json
from pathlib import Path

from benchmarks.place import LONG_STEPS, Place
from benchmarks.result import Figure, Result
from benchmarks.steps import measured


def measure(place: Place) -> Result:
    """Files of the long run's home; stopping writes what the databases still keep beside them."""
    run = place.long
    run.home.down()
    home = run.home.product.home
    parts = {
        "events (ledger.db)": _size(home / "ledger.db"),
        "warehouse (warehouse.duckdb)": _size(home / "warehouse.duckdb"),
        "spool": _size(run.home.spool(run.run_id)),
    }
    line = sum(len(json.dumps(measured(step))) + 1 for step in range(LONG_STEPS)) / LONG_STEPS
    parts["all three"] = sum(parts.values())
    return Result(
        [
            Figure(f"bytes a step, {name}", size / LONG_STEPS, "bytes", line)
            for name, size in parts.items()
        ],
        f"of {LONG_STEPS:,} steps in one home; floor: the 12 numbers as a line of JSON",
    )


def _size(path: Path) -> int:
    """Bytes of a file and of what its database keeps beside it."""
    beside = (path.with_name(f"{path.name}{end}") for end in ("-wal", ".wal"))
    return sum(each.stat().st_size for each in (path, *beside) if each.exists())
