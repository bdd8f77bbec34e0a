"""Worker: the training process as the runner starts it, stops it and sees it end."""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from engine.runner.job import Job, read_json, write_json
from engine.runner.memory import oom_kills
from engine.runner.processes import identity, kill_group_of, signal_group
from engine.runner.settings import worker_environment

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell puts it where it cannot start a command
STOPPED = 143

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Exit:
    """How a worker ended, in the words of the wire."""

    code: int | None
    signal: int | None
    at: float | None  # seconds since 1970 UTC
    oomKilled: bool | None  # noqa: N815 - a name of the wire
    seen: bool  # false: nobody watched the end


UNSEEN = Exit(code=None, signal=None, at=None, oomKilled=None, seen=False)


class Worker:
    """A started worker in a session of its own. A thread waits for its end."""

    def __init__(
        self,
        job: Job,
        process: subprocess.Popen[bytes],
        *,
        kills_before: int | None,
        clock: Callable[[], float],
    ) -> None:
        self.exit: Exit | None = None
        self._job = job
        self._process = process
        self._kills_before = kills_before
        self._clock = clock
        self._request: str | None = None
        self._serial = self._told = 0  # of the newest request; of the one in the control file
        self._terminated = False
        self._due: list[tuple[float, signal.Signals]] = []  # monotonic time, what is sent then
        threading.Thread(target=self._wait, daemon=True).start()

    def ask(self, request: str | None) -> None:
        """Ask for this, or for nothing any more; while a request stands, press harder by and by."""
        if request == self._request:
            return
        if request is None:
            self._due = []
        elif self._request is None:
            grace, now = self._job.stop_grace_seconds, time.monotonic()
            self._due = [(now + grace, signal.SIGTERM), (now + 2 * grace, signal.SIGKILL)]
        self._request = request
        self._serial += 1

    def terminate(self) -> None:
        """Ask by signal; kill after the grace."""
        if self._terminated:
            return
        self._terminated = True
        grace, now = self._job.stop_grace_seconds, time.monotonic()
        self._due = [(now, signal.SIGTERM), (now + grace, signal.SIGKILL)]

    def press(self) -> None:
        """Put the newest request where the worker looks, and send the signals that are due."""
        if self._told != self._serial:
            with suppress(OSError):  # a full disk; the next look tries again
                said = {"request": self._request, "serial": self._serial}
                write_json(self._job.control, said)
                self._told = self._serial
        while self.exit is None and self._due and time.monotonic() >= self._due[0][0]:
            signal_group(self._process.pid, self._due.pop(0)[1])

    def _wait(self) -> None:
        """See the end, take the rest of the group along, and keep how it ended."""
        # The ended process keeps its id until it is reaped, so the group's id is still its own.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        at = self._clock()
        signal_group(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        ended = Exit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            at=at,
            oomKilled=self._was_killed_for_memory(code),
            seen=True,
        )
        with suppress(OSError):  # a full disk; the server is told all the same
            write_json(self._job.exit_file, asdict(ended))
        self.exit = ended

    def _was_killed_for_memory(self, code: int) -> bool | None:
        """Whether memory ran out; the signal alone proves nothing."""
        after = oom_kills()
        if self._kills_before is None or after is None:
            return None
        return after > self._kills_before and code in (-signal.SIGKILL, 128 + signal.SIGKILL)


def start(job: Job, clock: Callable[[], float]) -> Worker | Exit:
    """Start the worker of ``job``; its exit at once where its command cannot be started."""
    write_json(job.worker_file, {"pid": None, "createdAt": None, "startedAt": clock()})
    runner, kills_before = os.getpid(), oom_kills()

    def die_with_the_runner() -> None:
        # Between fork and exec, in a process that has one thread: no other way sets this without
        # a second start of Python. The runner may have died in between, hence the look.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        if os.getppid() != runner:
            os._exit(1)

    with job.worker_log.open("ab") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - what to run is the plan's to say
                job.command,
                cwd=job.directory,
                env=worker_environment(job),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_the_runner,  # noqa: PLW1509 - the reason stands there
            )
        except OSError as error:
            log.write(f"the worker could not be started: {error}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return _without_worker(job, code, at=clock())
    write_json(job.worker_file, identity(process.pid) | {"startedAt": clock()})
    return Worker(job, process, kills_before=kills_before, clock=clock)


def forgo(job: Job, clock: Callable[[], float]) -> Exit:
    """Start no worker, now or ever; the exit of one that stopped on request at once."""
    now = clock()
    write_json(job.worker_file, {"pid": None, "createdAt": None, "startedAt": now})
    return _without_worker(job, STOPPED, at=now)


def bury(job: Job) -> Exit:
    """Make sure that the worker of an earlier, dead runner is dead too; how it ended."""
    said = read_json(job.worker_file) or {}
    if said.get("pid") is not None:
        kill_group_of(said)
    known = read_json(job.exit_file)
    if known is not None:
        return Exit(**known)
    write_json(job.exit_file, asdict(UNSEEN))
    return UNSEEN


def _without_worker(job: Job, code: int, *, at: float) -> Exit:
    """Note an exit that no process had."""
    ended = Exit(code=code, signal=None, at=at, oomKilled=None, seen=True)
    write_json(job.exit_file, asdict(ended))
    return ended
