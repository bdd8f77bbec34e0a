"""The worker's outermost frame: ``python -m engine.worker.trl`` with an attempt's environment.

Exit code 0: completed. 65: refused, the sentence is in the spool. 70: failed and said why.
75: has waited in vain for another of several ranks. 143: stopped on request.
"""

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.client import Reporter, output_folder, read_plan
from engine.errors import RefusalError, StoppedError
from engine.prepare import settings
from engine.prepare.preparation import Means, Prepared, prepare
from engine.worker.start import start
from engine.worker.trl import settings as trl_settings
from engine.worker.trl.requests import Asked, Requests
from engine.worker.trl.settings import Place
from ledger.plan import parse

if TYPE_CHECKING:
    from engine.worker.trl.ranks import Ranks

LOOK_SECONDS = 0.05  # between two looks for rank 0
GIVING_UP = ("timed out waiting", "wait timeout", "timeout waiting for key")
COMPLETED, REFUSED, FAILED, WAITED, STOPPED = 0, 65, 70, 75, 143


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
        return fail(reporter, error)
    return COMPLETED


def fail(reporter: Reporter, error: BaseException) -> int:
    """Report what it died of, where that is known; the exit code."""
    cause = cause_of(error)
    if trl_settings.place().count > 1 and cause == "unknown":
        # It may only have lost its partner, whose end says more, or have given it up.
        return WAITED if has_waited(error) else FAILED
    reporter.failed(cause)
    return FAILED


def run(reporter: Reporter, requests: Requests) -> None:
    """Prepare the rows, which is quick to refuse, and only then load the libraries that train."""

    def go_on() -> None:
        if requests():
            raise StoppedError

    plan, begins, place = parse(read_plan()), start(), trl_settings.place()
    if place.count != plan.execution.devices:
        raise RuntimeError(f"{place.count} ranks began, the plan needs {plan.execution.devices}")
    settings.prepare_libraries()
    data = prepare(plan, Means(reporter, settings.cache_folder(), go_on)) if place.leads else None

    reporter.stage("loading the engine")
    from engine.worker.trl import ranks, sft  # noqa: PLC0415 - takes seconds, after the line above

    if not place.leads:
        wait_for_rank_0(place, go_on)
    joined = ranks.Ranks(place)
    try:
        sft.train(
            plan,
            share(data, joined),
            reporter,
            output=output_folder(),
            requests=requests,
            start=begins,
            ranks=joined,
        )
    except StoppedError:  # which all of them heard at the same call
        joined.part()
        raise
    joined.part()


def wait_for_rank_0(place: Place, go_on: Callable[[], None]) -> None:
    """Wait until the first rank has the rows; it may have to make them, and be asked to stop."""
    while place.rendezvous is not None and not place.rendezvous.exists():
        go_on()
        time.sleep(LOOK_SECONDS)


def share(data: Prepared | None, ranks: "Ranks") -> Prepared:
    """The rows of rank 0, on every rank: none of the others tokenises them a second time."""
    told = None if data is None else replace(data, recipe=replace(data.recipe))  # no tokenizer
    shared = ranks.share(told)
    if shared is None:
        raise RuntimeError("rank 0 has no rows")
    return shared


def has_waited(error: BaseException) -> bool:
    """Whether this rank has waited for another in vain; by what gloo says, which has no class."""
    return any(words in str(error).lower() for words in GIVING_UP)


def cause_of(error: BaseException) -> str:
    """Which memory ran out, if one did; by name, since torch may not be loaded yet."""
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return "deviceMemory"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "hostMemory"
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
