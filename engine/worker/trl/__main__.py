"""The worker's outermost frame: ``python -m engine.worker.trl`` with an attempt's environment.

Exit code 0: completed. 65: refused, the sentence is in the spool. 70: failed and said why.
143: stopped on request.
"""

import sys
import traceback

from engine.client import Reporter, output_folder, read_plan
from engine.errors import RefusalError, StoppedError
from engine.prepare import settings
from engine.prepare.preparation import Means, prepare
from engine.worker.start import start
from engine.worker.trl.requests import Asked, Requests
from ledger.plan import parse

COMPLETED, REFUSED, FAILED, STOPPED = 0, 65, 70, 143


def main() -> int:
    """Train what the plan says; every way to end has its line and its exit code."""
    reporter = Reporter.from_environment()
    requests = Asked(reporter)
    try:
        run(reporter, requests)
    except RefusalError as refusal:
        traceback.print_exception(refusal)
        reporter.refused(str(refusal))
        return REFUSED
    except StoppedError:
        return STOPPED
    except Exception as error:  # noqa: BLE001 - nothing is above this frame
        traceback.print_exception(error)
        reporter.failed(cause_of(error))
        return FAILED
    return COMPLETED


def run(reporter: Reporter, requests: Requests) -> None:
    """Prepare the rows, which is quick to refuse, and only then load the libraries that train."""

    def go_on() -> None:
        if requests():
            raise StoppedError

    plan, begins = parse(read_plan()), start()
    settings.prepare_libraries()
    data = prepare(plan, Means(reporter, cache=settings.cache_folder(), go_on=go_on))

    reporter.stage("loading the engine")
    from engine.worker.trl import sft  # noqa: PLC0415 - takes seconds, after the line above

    sft.train(
        plan,
        data,
        reporter,
        output=output_folder(),
        requests=requests,
        start=begins,
    )


def cause_of(error: BaseException) -> str:
    """Which memory ran out, if one did; by name, since torch may not be loaded yet."""
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return "deviceMemory"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "hostMemory"
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
