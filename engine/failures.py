"""Why a job ended: the published sentences, and which of them the evidence supports.

The sentences are interface and are printed word for word. Except for a refusal, which is the
worker's own word about its input, no reason holds anything internal.
"""

import signal
from enum import Enum
from typing import Literal, NamedTuple

from ledger.attempt import JobHead
from ledger.events import EndClass, job_of
from ledger.run import Ending

REFUSED_EXIT = 65
STOPPED_EXIT = 143

Request = Literal["cancel", "pause"]  # what we asked of the job before it ended


class Exit(NamedTuple):
    """How the runner saw the worker end."""

    code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None  # by the operating system, for want of host memory
    seen: bool = True  # False: the runner itself was gone when it happened
    rank: int | None = None  # of several, the one that ended the others
    hung: bool = False  # it kept the others waiting until they gave up


_LATER = "Submit the run again later. If it fails the same way, quote the run ID to your operator."


class Failure(Enum):
    """A reason with its stable code, its class and what to do about it.

    The order is that of the published table. What may go better on another attempt is retried; a
    job that reports nothing, or whose cluster cannot be reached, had its time already.
    """

    DEVICE_MEMORY = (
        "device-memory",
        "resource",
        "the training job ran out of device memory; a shorter sequence, a smaller micro batch or "
        "activation recomputation uses less",
        "Lower config.maxSeqLength, lower execution.microBatchSequences on a reinforcement run, or "
        "enable config.model.gradientCheckpointing. If the run still fails, select a device "
        "profile with more device memory.",
    )
    ROLLOUT_MEMORY = (
        "rollout-memory",
        "resource",
        "the training job’s rollout engine did not fit its share of device memory; a shorter "
        "sequence or a smaller model fits",
        "Lower config.maxSeqLength or use a smaller model.",
    )
    HANDOVER_MEMORY = (
        "handover-memory",
        "resource",
        "the training job ran out of device memory handing its weights to the rollout engine; a "
        "smaller model or a device with more memory fits",
        "Use a smaller model, or select a device profile with more device memory.",
    )
    HOST_MEMORY = (
        "host-memory",
        "resource",
        "the training job ran out of host memory; a smaller micro batch or sequence length uses "
        "less",
        "Lower config.maxSeqLength and, on a reinforcement run, execution.microBatchSequences. If "
        "the run still fails, select a device profile with more host memory.",
    )
    UNREACHABLE = (
        "cluster-unreachable",
        "infrastructure",
        "the training cluster could not be reached while this run waited for its devices",
        _LATER,
    )
    NOT_STARTED = (
        "not-started",
        "infrastructure",
        "this run’s job could not be started on the training cluster",
        _LATER,
    )
    NOT_PREPARED = (
        "not-prepared",
        "infrastructure",
        "this run’s rows could not be prepared",
        _LATER,
    )
    NO_PROGRESS = (
        "no-progress",
        "infrastructure",
        "this run’s job reported no progress within its startup timeout",
        _LATER,
    )
    RANK_HUNG = (
        "rank-hung",
        "infrastructure",
        "a rank of the training job kept the others waiting for too long",
        "Start the run again. If the rank was not stuck but slow, have your operator raise the "
        "server’s setting rank_seconds.",
    )
    STOPPED = (
        "stopped",
        "stopped",
        "the training job was stopped",
        "Start the run again, or resume it if it holds a checkpoint.",
    )
    VANISHED = (
        "vanished",
        "infrastructure",
        "the training job stopped before it finished",
        "Start the run again.",
    )
    UNKNOWN = (
        "unknown",
        "unknown",
        "the training job failed; the run ID is what support needs",
        "Quote the run ID.",
    )

    def __init__(self, code: str, end_class: EndClass, sentence: str, advice: str) -> None:
        self.code = code
        self.end_class = end_class
        self.sentence = sentence
        self.advice = advice

    def ending(self, seen: Exit) -> Ending:
        """The end of a job for this reason."""
        return Ending(
            "failed",
            self.end_class,
            self.code,
            self._reason(seen.rank),
            self.advice,
            exit_code=seen.code,
            signal=seen.signal,
            may_retry=self in _PASSING,
            rank=seen.rank,
        )

    def _reason(self, rank: int | None) -> str:
        """The sentence, with the number of the rank that it is about, if that is known."""
        if self is Failure.RANK_HUNG and rank is not None:
            return self.sentence.replace("a rank", f"rank {rank}", 1)
        return self.sentence


_PASSING = frozenset(
    {
        Failure.NOT_STARTED,
        Failure.NOT_PREPARED,
        Failure.RANK_HUNG,
        Failure.STOPPED,
        Failure.VANISHED,
    }
)
_OF_TRAINING = frozenset({Failure.STOPPED, Failure.VANISHED, Failure.UNKNOWN})
_DONE = "everything that the plan asked for is done"
REFUSAL_ADVICE = "Correct the input that the refusal names, then submit the run again."
_CAUSES = {
    "deviceMemory": Failure.DEVICE_MEMORY,
    "rolloutMemory": Failure.ROLLOUT_MEMORY,
    "handoverMemory": Failure.HANDOVER_MEMORY,
    "hostMemory": Failure.HOST_MEMORY,
}


def ending(head: JobHead, seen: Exit, *, asked: Request | None = None) -> Ending:
    """How the job ended: the worker's own word first, then our request, then how it died.

    A worker that said that all is done has completed, however its process ended afterwards.
    """
    job = job_of(head.stream)
    is_preparation = job is not None and job.kind == "preparation"
    if head.said == "completed":
        reason = "the rows are prepared" if is_preparation else _DONE
        return Ending("completed", "completed", "completed", reason, "", seen.code, seen.signal)
    if asked == "cancel":
        reason = "the run was cancelled"
        return Ending("cancelled", "stopped", "cancelled", reason, "", seen.code, seen.signal)
    if head.said == "refused":
        return Ending(
            "failed", "input", "refused", head.word, REFUSAL_ADVICE, seen.code, seen.signal
        )
    failure = _failure(head, seen)
    if is_preparation and failure in _OF_TRAINING:
        failure = Failure.NOT_PREPARED
    if asked == "pause" and failure in _PASSING:
        reason = "the run was paused"
        return Ending("paused", "stopped", "paused", reason, "", seen.code, seen.signal)
    return failure.ending(seen)


def _failure(head: JobHead, seen: Exit) -> Failure:
    if head.said == "failed":
        return _CAUSES.get(head.word, Failure.UNKNOWN)
    if seen.oom_killed:  # only the kernel's own count is proof; a SIGKILL alone is not
        return Failure.HOST_MEMORY
    if seen.hung:
        return Failure.RANK_HUNG
    if seen.signal == signal.SIGTERM or seen.code == STOPPED_EXIT:
        return Failure.STOPPED
    if not seen.seen or seen.signal == signal.SIGKILL or seen.code == 0:
        return Failure.VANISHED
    return Failure.UNKNOWN
