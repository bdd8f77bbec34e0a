"""Worker: the training processes as the runner starts them, stops them and sees them end.

A worker has one process for each of its ranks. It has ended when all of them have: where one ends,
the others are ended, since none of them can train alone.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from engine.client import Reporter
from engine.runner.exits import FAULTS, STOPPED, UNSEEN, End, Exit, exit_of, last_word
from engine.runner.job import Job, read_json, write_json
from engine.runner.processes import kill_groups_of
from engine.runner.rank import Rank, start_rank

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell puts it where it cannot start a command

Due = list[tuple[float, signal.Signals]]  # monotonic time, what is sent then


class Worker:
    """A started worker. A thread for each rank waits for its end."""

    def __init__(self, job: Job, ranks: Sequence[Rank]) -> None:
        self.exit: Exit | None = None
        self._job = job
        self._ranks = ranks
        self._request: str | None = None
        self._serial = self._told = 0  # of the newest request; of the one in the control file
        self._terminated = False
        self._due: Due = []
        self._due_to_others: Due = []  # of those that have ended
        self._ends: list[End] = []
        self._has_failed = False  # a rank, so that the others are ended
        self._lock = threading.Lock()
        for rank in ranks:
            threading.Thread(target=self._wait, args=(rank,), daemon=True).start()

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
        self._due = _at_once(self._job.stop_grace_seconds)

    def press(self) -> None:
        """Put the newest request where the worker looks, and send the signals that are due."""
        if self._told != self._serial:
            with suppress(OSError):  # a full disk; the next look tries again
                said = {"request": self._request, "serial": self._serial}
                write_json(self._job.control, said)
                self._told = self._serial
        while self.exit is None and self._due and time.monotonic() >= self._due[0][0]:
            number = self._due.pop(0)[1]
            for rank in self._ranks:
                rank.send(number)
        self._press_others()

    def _press_others(self) -> None:
        """Send what is due to the ranks that are left."""
        with self._lock:
            due = self._due_to_others
            while due and time.monotonic() >= due[0][0]:
                number = due.pop(0)[1]
                for rank in self._left():
                    rank.tell(number)

    def _wait(self, rank: Rank) -> None:
        """See a rank end, and what follows from that for the others."""
        end = rank.wait()
        with self._lock:
            self._ends.append(end)
            is_over = len(self._ends) == len(self._ranks)
            self._plan_the_end_of_others(end)
        if is_over:
            self._settle()
        else:
            self._press_others()

    def _plan_the_end_of_others(self, end: End) -> None:
        """At once where a rank failed; else they are given the time to end by themselves."""
        grace = self._job.stop_grace_seconds
        if end.code not in (0, STOPPED) and not self._has_failed:
            self._has_failed = True
            self._due_to_others = _at_once(grace)
        elif not self._has_failed and not self._due_to_others:
            self._due_to_others = [(at + grace, number) for at, number in _at_once(grace)]

    def _left(self) -> list[Rank]:
        """The ranks that have not ended."""
        ended = {end.rank for end in self._ends}
        return [rank for rank in self._ranks if rank.number not in ended]

    def _settle(self) -> None:
        """Keep how the worker ended, and what the rank that is why has said of it."""
        ended, cause = exit_of(self._ends)
        is_said = last_word(self._job.spool, *FAULTS, "completed") is not None
        with suppress(OSError):  # a full disk; the server is told how it ended all the same
            if cause.word is not None and not is_said:
                Reporter(self._job.spool).line(cause.word)
            write_json(self._job.exit_file, ended.said())
        self.exit = ended


def start(job: Job, clock: Callable[[], float]) -> Worker | Exit:
    """Start the worker of ``job``; its exit at once where its command cannot be started."""
    write_json(job.worker_file, {"pid": None, "createdAt": None, "startedAt": clock()})
    ranks: list[Rank] = []
    with job.worker_log.open("ab") as log:
        try:
            for number in range(job.ranks):
                ranks.append(start_rank(job, number, log, clock=clock))  # noqa: PERF401 - what was
        except OSError as error:  # started before must be ended
            for each in ranks:
                each.send(signal.SIGKILL)
                each.wait()
            log.write(f"the worker could not be started: {error}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return _without_worker(job, code, at=clock())
    first, *others = [rank.identity() for rank in ranks]
    write_json(job.worker_file, first | {"startedAt": clock(), "others": others})
    return Worker(job, ranks)


def forgo(job: Job, clock: Callable[[], float]) -> Exit:
    """Start no worker, now or ever; the exit of one that stopped on request at once."""
    now = clock()
    write_json(job.worker_file, {"pid": None, "createdAt": None, "startedAt": now})
    return _without_worker(job, STOPPED, at=now)


def bury(job: Job) -> Exit:
    """Make sure that the worker of an earlier, dead runner is dead too; how it ended."""
    kill_groups_of(read_json(job.worker_file))
    known = read_json(job.exit_file)
    if known is not None:
        return Exit(**known)
    write_json(job.exit_file, UNSEEN.said())
    return UNSEEN


def _without_worker(job: Job, code: int, *, at: float) -> Exit:
    """Note an exit that no process had."""
    ended = Exit(code=code, signal=None, at=at, oomKilled=None, seen=True)
    write_json(job.exit_file, ended.said())
    return ended


def _at_once(grace: float) -> Due:
    """SIGTERM now, SIGKILL after the grace."""
    now = time.monotonic()
    return [(now, signal.SIGTERM), (now + grace, signal.SIGKILL)]
