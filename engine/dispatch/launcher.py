"""Launcher: what dispatch asks of whatever starts the jobs of runs on machines."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from ledger.events import Job, JobKind


@dataclass(frozen=True)
class JobRef:
    """One job of one run; there is never more than one."""

    run: str
    number: int  # of its kind
    kind: JobKind = "attempt"

    @property
    def job(self) -> Job:
        """Which of the run's jobs it is."""
        return Job(self.number, self.kind)


@dataclass(frozen=True)
class LaunchRequest:
    """Everything that a job needs to know."""

    ref: JobRef
    plan: dict[str, Any]  # resolved
    devices: tuple[str, ...]  # "cuda:0" or "cpu:0"; none for a preparation
    token: str = field(repr=False)  # good for the reports of this job only
    environment: dict[str, str] = field(default_factory=dict)


class JobState(StrEnum):
    """What is known about a job without asking its worker."""

    ALIVE = "alive"  # its runner works
    ENDED = "ended"  # its runner is gone, and how the worker ended is kept
    GONE = "gone"  # no runner, and nobody saw an end; submit again to have it settled


class UnreachableError(Exception):
    """The machines that jobs run on did not answer; try again."""


class Launcher(Protocol):
    """Starts jobs and looks after them."""

    name: str  # as events and records say it

    def submit(self, request: LaunchRequest) -> JobRef:
        """Start the job, once: of a job that is alive, another submit changes nothing.

        A job whose runner died is settled, not started again: what its worker left is delivered.

        Raises:
            UnreachableError: nobody knows whether it was started; submit it again.
            OSError: it cannot be started.
        """

    def observe(self, refs: Iterable[JobRef]) -> dict[JobRef, JobState]:
        """The state of each job at this moment."""

    def cancel(self, ref: JobRef) -> None:
        """End the job politely, by force after its grace; repeat it until the job has ended.

        It holds from the moment of the submission: a job whose worker has not begun begins none.
        A job that is not alive stays as it is.
        """

    def kill(self, ref: JobRef) -> None:
        """End the job at once, with everything that it began; nothing of it runs any more then.

        For a job that is lost: its runner may be dead, or stopped. What its worker said last may
        never be delivered.

        Raises:
            UnreachableError: nobody knows whether it still runs; ask again.
            TimeoutError: something of it does not end; ask again.
        """
