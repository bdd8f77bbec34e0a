"""Which sentence the evidence supports."""

import re

import pytest

from engine.failures import Exit, Failure, ending
from ledger.attempt import AttemptHead

SILENT = AttemptHead("run/00000000000000aa/a1")


def reason(seen: Exit, head: AttemptHead = SILENT) -> str:
    return ending(head, seen, cancel_requested=False).reason


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (Exit(signal=9), "the training job stopped before it finished"),
        (Exit(code=0), "the training job stopped before it finished"),
        (Exit(seen=False), "the training job stopped before it finished"),
        (Exit(signal=15), "the training job was stopped"),
        (Exit(code=143), "the training job was stopped"),
        (Exit(code=1), "the training job failed; the run ID is what support needs"),
        (Exit(signal=11), "the training job failed; the run ID is what support needs"),
        (
            Exit(signal=9, oom_killed=True),
            "the training job ran out of host memory; a smaller micro batch or sequence length "
            "uses less",
        ),
    ],
)
def test_a_worker_that_said_nothing_is_judged_by_how_it_died(seen: Exit, sentence: str) -> None:
    """S74, S78, S79, S80: a SIGKILL alone is no proof of want of memory."""
    assert reason(seen) == sentence


def test_what_the_worker_said_counts_for_more_than_how_it_died() -> None:
    """S66, S69: the refusal's own words; the published sentence for device memory."""
    refused = SILENT._replace(said="refused", word="an example ends with a user message")
    memory = SILENT._replace(said="failed", word="deviceMemory")

    assert reason(Exit(signal=9), refused) == "an example ends with a user message"
    assert reason(Exit(code=70), memory) == (
        "the training job ran out of device memory; a shorter sequence, a smaller micro batch or "
        "activation recomputation uses less"
    )


def test_a_worker_that_said_that_all_is_done_has_completed() -> None:
    done = SILENT._replace(said="completed")

    assert ending(done, Exit(signal=9), cancel_requested=True).outcome == "completed"


def test_a_run_that_was_asked_to_end_is_cancelled_however_its_worker_died() -> None:
    """I3."""
    how = ending(SILENT, Exit(signal=9), cancel_requested=True)

    assert (how.outcome, how.end_class) == ("cancelled", "stopped")


@pytest.mark.parametrize("failure", list(Failure))
def test_a_reason_holds_nothing_internal_and_says_what_to_do(failure: Failure) -> None:
    """S81, S82: no exception, no module, no path."""
    assert not re.search(r"Error|Exception|Traceback|\w\.\w|/|_", failure.sentence)
    assert failure.advice.endswith(".")
