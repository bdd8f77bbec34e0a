"""The outermost frame: ``python -m engine.prepare`` in the environment of a job without devices.

It reports its stages to its spool. Exit code 0: the rows are prepared, or left to the worker. 65:
refused, the sentence is in the spool. 70: failed and said why. 143: stopped on request.

With ``--check`` it takes ``{"dataset", "baseModel", "maxSeqLength"}`` on stdin, with ``--keep``
``{"file", "folder"}``, and writes the verdict to stdout, all as JSON; exit code 0 whatever the
verdict is.
"""

import json
import os
import sys
import traceback
from pathlib import Path

from engine.client import Reporter, read_plan
from engine.errors import RefusalError, StoppedError
from engine.prepare import settings
from engine.prepare.ahead import prepare_ahead
from engine.prepare.checking import check
from engine.prepare.keeping import keep
from engine.prepare.preparation import Means, Recipe, Wanted

DONE, REFUSED, FAILED, STOPPED = 0, 65, 70, 143


def main(arguments: list[str]) -> int:
    """Prepare, or check; every way to end has its exit code."""
    settings.prepare_libraries()
    if arguments == ["--check"]:
        return _check()
    if arguments == ["--keep"]:
        return _keep()
    return _prepare(Reporter.from_environment())


def _prepare(reporter: Reporter) -> int:
    def go_on() -> None:
        if reporter.stop_requested():
            raise StoppedError

    try:
        means = Means(reporter, cache=settings.cache_folder(), go_on=go_on)
        prepare_ahead(Wanted.of(read_plan()), means)
    except RefusalError as refusal:
        traceback.print_exception(refusal)
        reporter.refused(str(refusal))
        return REFUSED
    except StoppedError:
        return STOPPED
    except Exception as error:  # noqa: BLE001 - nothing is above this frame
        traceback.print_exception(error)
        reporter.failed("hostMemory" if isinstance(error, MemoryError) else "unknown")
        return FAILED
    reporter.completed()
    return DONE


def _check() -> int:
    asked = json.load(sys.stdin)
    nobody = Reporter(os.devnull)
    means = Means(nobody, cache=settings.cache_folder(), go_on=lambda: None)
    verdict = check(asked["dataset"], Recipe(asked["baseModel"], asked["maxSeqLength"]), means)
    json.dump(verdict, sys.stdout)
    return DONE


def _keep() -> int:
    asked = json.load(sys.stdin)
    json.dump(keep(asked["file"], Path(asked["folder"])), sys.stdout)
    return DONE


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the interpreter takes as long to tidy up as to find rows that are there
