"""Which sentence the evidence supports."""

import re

import pytest

from engine.failures import Exit, Failure, ending
from ledger.attempt import JobHead

SILENT = JobHead("run/00000000000000aa/a1")


def reason(seen: Exit, head: JobHead = SILENT) -> str:
    return ending(head, seen).reason


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

    assert ending(done, Exit(signal=9), asked="cancel").outcome == "completed"


def test_a_run_that_was_asked_to_end_is_cancelled_however_its_worker_died() -> None:
    """I3."""
    how = ending(SILENT, Exit(signal=9), asked="cancel")

    assert (how.outcome, how.end_class) == ("cancelled", "stopped")


@pytest.mark.parametrize("failure", list(Failure))
def test_a_reason_holds_nothing_internal_and_says_what_to_do(failure: Failure) -> None:
    """S81, S82: no exception, no module, no path."""
    assert not re.search(r"Error|Exception|Traceback|\w\.\w|/|_", failure.sentence)
    assert failure.advice.endswith(".")


def test_the_published_sentences_are_printed_word_for_word() -> None:
    """S69, S70, S71, S74, S76, S77, S78, S79, S80: rows 2 to 4, 6 and 9 to 13 of the table."""
    assert [(each.code, each.sentence) for each in Failure] == [
        (
            "device-memory",
            "the training job ran out of device memory; a shorter sequence, a smaller micro batch "
            "or activation recomputation uses less",
        ),
        (
            "rollout-memory",
            "the training job’s rollout engine did not fit its share of device memory; a shorter "
            "sequence or a smaller model fits",
        ),
        (
            "handover-memory",
            "the training job ran out of device memory handing its weights to the rollout engine; "
            "a smaller model or a device with more memory fits",
        ),
        (
            "host-memory",
            "the training job ran out of host memory; a smaller micro batch or sequence length "
            "uses less",
        ),
        (
            "cluster-unreachable",
            "the training cluster could not be reached while this run waited for its devices",
        ),
        ("not-started", "this run’s job could not be started on the training cluster"),
        ("not-prepared", "this run’s rows could not be prepared"),
        ("no-progress", "this run’s job reported no progress within its startup timeout"),
        ("rank-hung", "a rank of the training job kept the others waiting for too long"),
        ("stopped", "the training job was stopped"),
        ("vanished", "the training job stopped before it finished"),
        ("unknown", "the training job failed; the run ID is what support needs"),
    ]


@pytest.mark.parametrize(
    ("cause", "failure"),
    [
        ("deviceMemory", Failure.DEVICE_MEMORY),
        ("rolloutMemory", Failure.ROLLOUT_MEMORY),
        ("handoverMemory", Failure.HANDOVER_MEMORY),
        ("hostMemory", Failure.HOST_MEMORY),
        ("unknown", Failure.UNKNOWN),
    ],
)
def test_the_site_where_memory_ran_out_chooses_the_sentence(cause: str, failure: Failure) -> None:
    """S69, S70, S71, S74: no exit code tells these apart, so the worker says it."""
    how = ending(SILENT._replace(said="failed", word=cause), Exit(code=70))

    assert (how.reason, how.code, how.advice) == (failure.sentence, failure.code, failure.advice)
    assert not how.may_retry


def test_a_rank_that_hung_is_named_in_the_reason_and_the_run_tried_again() -> None:
    """Unless each has waited for another; whatever signal ended it, nobody stopped the job."""
    named = ending(SILENT, Exit(signal=9, rank=1, hung=True))
    nameless = ending(SILENT, Exit(code=75, hung=True))
    stopped = ending(SILENT, Exit(signal=15, rank=0, hung=True))

    assert named.reason == "rank 1 of the training job kept the others waiting for too long"
    assert nameless.reason == "a rank of the training job kept the others waiting for too long"
    assert [each.code for each in (named, nameless, stopped)] == ["rank-hung"] * 3
    assert named.may_retry


@pytest.mark.parametrize("seen", [Exit(signal=9), Exit(signal=15), Exit(code=143), Exit(code=0)])
def test_only_what_happened_to_the_job_is_tried_again(seen: Exit) -> None:
    """S78, S79: a stop by the cluster and a job that vanished; no refusal, memory or exception."""
    assert ending(SILENT, seen).may_retry
    assert not ending(SILENT, Exit(code=1)).may_retry
    assert not ending(SILENT._replace(said="refused", word="no"), seen).may_retry


def test_a_job_that_was_asked_to_pause_has_paused_unless_it_failed() -> None:
    """I4: want of memory is a failure all the same."""
    assert ending(SILENT, Exit(code=143), asked="pause").outcome == "paused"
    assert ending(SILENT, Exit(signal=9), asked="pause").outcome == "paused"
    memory = SILENT._replace(said="failed", word="deviceMemory")
    assert ending(memory, Exit(code=70), asked="pause").outcome == "failed"
