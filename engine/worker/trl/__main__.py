"""The worker's outermost frame: ``python -m engine.worker.trl`` with an attempt's environment.

Exit code 0: completed. 65: refused, the sentence is in the spool. 70: failed and said why.
143: stopped on request.
"""

import signal
import sys
import traceback
from types import FrameType

from engine.client import Reporter, output_folder, read_plan
from engine.worker.trl import rows, settings
from engine.worker.trl.errors import RefusalError, StoppedError
from ledger.plan import parse

COMPLETED, REFUSED, FAILED, STOPPED = 0, 65, 70, 143


class StopRequest:
    """Whether anybody asked this worker to stop: by the control file or by SIGTERM."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._signalled = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def __call__(self) -> bool:
        """Cheap enough for every update."""
        return self._signalled or self._reporter.stop_requested()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._signalled = True


def main() -> int:
    """Train what the plan says; every way to end has its line and its exit code."""
    reporter = Reporter.from_environment()
    stopping = StopRequest(reporter)
    try:
        run(reporter, stopping)
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


def run(reporter: Reporter, stopping: StopRequest) -> None:
    """Read the rows, which is quick to refuse, and only then load the libraries that train."""
    plan = parse(read_plan())
    reporter.stage("reading rows")
    data = rows.load(plan)
    reporter.dataset(data.rows, validation_rows=len(data.validation) or None)
    if stopping():
        raise StoppedError

    reporter.stage("loading the engine")
    settings.prepare_libraries()
    from engine.worker.trl import sft  # noqa: PLC0415 - takes seconds, after the line above

    sft.train(plan, data, reporter, output=output_folder(), stopping=stopping)


def cause_of(error: BaseException) -> str:
    """Which memory ran out, if one did; by name, since torch may not be loaded yet."""
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return "deviceMemory"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "hostMemory"
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
