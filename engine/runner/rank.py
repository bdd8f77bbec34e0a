"""Rank: one process of a worker, as it is started, told to end, and seen to end.

Each leads a session of its own, so that a signal reaches all that it began, and each dies with the
runner. Rank 0 prints into the worker's log itself; what the others print comes there line by line,
with their number before it.
"""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any

from engine.runner.exits import FAULTS, End, last_word
from engine.runner.job import Job
from engine.runner.memory import oom_kills
from engine.runner.processes import identity, signal_group
from engine.runner.settings import worker_environment

_PR_SET_PDEATHSIG = 1
_LOG_SECONDS = 2.0  # until the rest of what a rank has printed is in the log
_libc = ctypes.CDLL(None, use_errno=True)


class Rank:
    """A started process."""

    def __init__(
        self,
        number: int,
        job: Job,
        process: subprocess.Popen[bytes],
        *,
        kills_before: int | None,
        clock: Callable[[], float],
    ) -> None:
        self.number = number
        self._job = job
        self._process = process
        self._clock = clock
        self._kills_before = kills_before
        self._was_told = self._is_over = False
        self._copying: threading.Thread | None = None
        if process.stdout is not None:
            copying = (process.stdout, job.worker_log, f"rank {number}: ".encode())
            self._copying = threading.Thread(target=_copy_lines, args=copying, daemon=True)
            self._copying.start()

    def identity(self) -> dict[str, Any]:
        """What tells it from a later process with the same id."""
        return identity(self._process.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to everything of it; nothing once it is reaped, and its id is free."""
        if not self._is_over:
            signal_group(self._process.pid, number)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal because another rank has ended."""
        if not self._has_ended():
            self._was_told = True
            self.send(number)

    def wait(self) -> End:
        """See the end, take the rest of the group along, and say how it ended."""
        # The ended process keeps its id until it is reaped, so the group's id is still its own.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        at, was_told = self._clock(), self._was_told
        self.send(signal.SIGKILL)
        self._is_over = True
        code = self._process.wait()
        if self._copying is not None:
            self._copying.join(_LOG_SECONDS)
        return End(
            rank=self.number,
            code=code,
            at=at,
            oom_killed=self._was_killed_for_memory(code),
            was_told=was_told,
            word=last_word(self._job.spool_of(self.number), *FAULTS),
        )

    def _has_ended(self) -> bool:
        """Whether it ended by itself, though nobody may have looked yet."""
        try:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return True
        return ended is not None

    def _was_killed_for_memory(self, code: int) -> bool | None:
        """Whether memory ran out; the signal alone proves nothing."""
        after = oom_kills()
        if self._kills_before is None or after is None:
            return None
        return after > self._kills_before and code in (-signal.SIGKILL, 128 + signal.SIGKILL)


def start_rank(job: Job, number: int, log: IO[bytes], *, clock: Callable[[], float]) -> Rank:
    """Start this rank of the worker of ``job``.

    Raises:
        OSError: its command cannot be started.
    """
    runner, kills_before = os.getpid(), oom_kills()

    def die_with_the_runner() -> None:
        # Between fork and exec, in a process that has one thread: no other way sets this without
        # a second start of Python. The runner may have died in between, hence the look.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        if os.getppid() != runner:
            os._exit(1)

    process = subprocess.Popen(  # noqa: S603 - what to run is the plan's to say
        job.command,
        cwd=job.directory,
        env=worker_environment(job, rank=number),
        stdin=subprocess.DEVNULL,
        stdout=log if number == 0 else subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=die_with_the_runner,  # noqa: PLW1509 - the reason stands there
    )
    return Rank(number, job, process, kills_before=kills_before, clock=clock)


def _copy_lines(printed: IO[bytes], path: Any, mark: bytes) -> None:
    """Append every line to the file at ``path``, each with ``mark`` before it, in one write."""
    with printed, path.open("ab", buffering=0) as log:
        for line in printed:
            log.write(mark + line.rstrip(b"\n") + b"\n")
