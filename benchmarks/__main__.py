"""Run the benchmarks: ``python -m benchmarks [NAME...] [-o text|json] [--folder FOLDER]``."""

import argparse
import shutil
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks import report
from benchmarks.home import ROOT
from benchmarks.place import Place
from benchmarks.result import Result

NAMES = (
    *("help", "blocked", "survive", "follow", "attempts", "restore", "verify"),
    *(
        "ingest",
        "series",
        "bytes",
        "preparing",
        "saving",
        "overhead",
        "listing",
        "rollouts",
        "reading",
        "analysts",
    ),
    *("scale", "buckets"),
)


def main() -> int:
    """Measure what is asked for, and print one table."""
    options = parse_options()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    place = Place(options.folder, options.steps)
    results: dict[str, Result] = {}
    try:
        for name in options.names or NAMES:
            began = time.monotonic()
            results[name] = import_module(f"benchmarks.{name}").measure(place)
            sys.stderr.write(f"{name}: measured in {time.monotonic() - began:.0f} s\n")
    finally:
        place.close()
        shutil.rmtree(options.folder, ignore_errors=True)
    print(report.as_json(results) if options.output == "json" else report.table(results))
    return 0


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".cache" / "benchmarks",
        help="where files are made and removed; its disk is the one that is measured",
    )
    parser.add_argument(
        "--steps", type=int, default=1_000_000, metavar="N", help="of the run of a million steps"
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
