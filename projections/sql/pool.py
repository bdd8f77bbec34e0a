"""The server's side of queries: a few worker processes, each killed when its query takes too long.

A worker is started when it is first needed, keeps the copy open between queries, and ends by itself
when nothing is asked for a while.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from projections.errors import (
    NoCopyError,
    ProjectionError,
    QueryBusyError,
    QueryLimitError,
    QueryRefusedError,
)

STARTING_SECONDS = 60.0  # until a new process takes its first query
ENDING_SECONDS = 5.0  # until a process that was told to end is killed
ANSWER_BYTES = 1 << 30  # of one answer


class Limits(NamedTuple):
    """What one query may have."""

    seconds: float
    memory_bytes: int
    answer_bytes: int = ANSWER_BYTES
    threads: int = max(1, (os.cpu_count() or 1) // 2)


class Question(NamedTuple):
    """What is asked."""

    query: str
    form: str = "json"  # one of answers.FORMATS
    limit: int | None = None  # of rows


class Answer(NamedTuple):
    """An answer in a file that has no name, and what it is of."""

    file: IO[bytes]  # at its begin
    size_bytes: int
    position: int  # of the ledger, that the copy goes to
    published_at: str  # when the copy was made
    is_cut: bool  # whether there are more rows than were asked for


class Pool:
    """Workers over the copy at ``path``."""

    def __init__(self, path: Path, limits: Limits, *, workers: int) -> None:
        """Answers are kept beside the copy, where there is room, until they are read."""
        self.path = path
        self.limits = limits
        self._is_closed = False
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sql")
        self._workers = [_Worker(path, limits) for _ in range(workers)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def ask(self, question: Question) -> "Asked":
        """Have a worker answer; questions that find none wait for one, and not for ever.

        Raises:
            QueryBusyError: there are no workers any more.
        """
        asked = Asked(question)
        try:
            asked.answer = self._threads.submit(self._answer, asked)
        except RuntimeError:
            raise QueryBusyError("the server ends") from None
        return asked

    def close(self) -> None:
        """Kill every worker, whatever it is at."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.bury()

    def _answer(self, asked: "Asked") -> Answer:
        if time.monotonic() - asked.since > self.limits.seconds:
            raise QueryBusyError("every worker is at work for others")
        worker = self._idle.get()
        try:
            worker.rest()
            if self._is_closed:  # after that: whoever closes us sets this before the worker's own
                raise QueryBusyError("the server ends")
            asked.begin(worker.kill)
            return self._written(worker, asked.question)
        finally:
            asked.end()
            self._idle.put(worker)

    def _written(self, worker: "_Worker", question: Question) -> Answer:
        file = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 (the reader closes it)
        try:
            said = _checked(worker.answer(question, file))
        except BaseException:
            file.close()
            raise
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        return Answer(file, size, said["position"], said["publishedAt"], said["isCut"])


class Asked:
    """A question on its way."""

    answer: Future[Answer]

    def __init__(self, question: Question) -> None:
        self.question = question
        self.since = time.monotonic()
        self._guard = threading.Lock()
        self._kill: Callable[[], None] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Nobody waits for the answer any more: the worker that is at it is killed."""
        self.answer.cancel()
        self.answer.add_done_callback(_drop)
        with self._guard:
            self._is_stopped = True
            if self._kill is not None:
                self._kill()

    def begin(self, kill: Callable[[], None]) -> None:
        """A worker takes it; ``kill`` ends that."""
        with self._guard:
            self._kill = kill
            if self._is_stopped:
                kill()

    def end(self) -> None:
        """The worker is free for others."""
        with self._guard:
            self._kill = None


def _drop(answer: Future[Answer]) -> None:
    """Give the file back of an answer that came too late."""
    if not answer.cancelled() and answer.exception() is None:
        answer.result().file.close()


def _checked(said: dict[str, Any]) -> dict[str, Any]:
    """What a worker said of an answer.

    Raises:
        NoCopyError, QueryRefusedError, QueryLimitError: there is none.
    """
    if "missing" in said:
        raise NoCopyError("nothing is published yet")
    if "refused" in said:
        raise QueryRefusedError(said["refused"], said["excerpt"])
    if "limit" in said:
        raise QueryLimitError(said["limit"])
    return said


class _Worker:
    """One process at most, and our end of its socket."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._heard = b""  # and not yet understood
        self._is_killed = False

    def rest(self) -> None:
        """Be ready for another question, whoever stopped the last one."""
        self._is_killed = False

    def kill(self) -> None:
        """End the process, and what it is at."""
        with self._guard:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def answer(self, question: Question, file: IO[bytes]) -> dict[str, Any]:
        """What the process says of its answer, which is in ``file``.

        Raises:
            QueryLimitError: it took too long, or died of it.
        """
        self._begin(question, file)
        try:
            said = self._line(self._limits.seconds)
        except TimeoutError:
            self.kill()
            self.bury()
            seconds = self._limits.seconds
            raise QueryLimitError(f"the query took longer than the {seconds:g} s it has") from None
        if said is None:
            if self.bury() > 0:
                raise ProjectionError(
                    "the query ended in a fault of its worker, which is in the log"
                )
            raise QueryLimitError("the query needs more memory than one may have, and was ended")
        return said

    def _begin(self, question: Question, file: IO[bytes]) -> None:
        """Hand the question over, to a new process where the last one has ended."""
        text = json.dumps(question._asdict()).encode() + b"\n"
        for _ in range(2):
            asker = self._started()
            with suppress(OSError):  # it had nothing to do, and ended just now
                sent = socket.send_fds(asker, [text], [file.fileno()])
                asker.sendall(text[sent:])
                if self._line(STARTING_SECONDS) is not None:
                    return
            self.bury()
        raise QueryBusyError("no worker can be started just now")

    def _started(self) -> socket.socket:
        with self._guard:
            if self._is_killed:
                raise QueryLimitError("the query was stopped")
            if self._socket is None:
                ours, its = socket.socketpair()
                with its:
                    self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                        [sys.executable, "-P", "-m", "projections.sql.worker", self._stated()],
                        stdin=its.fileno(),
                        stdout=subprocess.DEVNULL,
                        cwd="/",
                        env=_environment(),
                        start_new_session=True,
                    )
                self._socket = ours
            return self._socket

    def _stated(self) -> str:
        return json.dumps([str(self._path.absolute()), *self._limits])

    def _line(self, seconds: float) -> dict[str, Any] | None:
        """What the process says next; None when it has ended.

        Raises:
            TimeoutError: it said nothing for so long.
        """
        assert self._socket is not None
        self._socket.settimeout(seconds)
        while b"\n" not in self._heard:
            try:
                part = self._socket.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                return None
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def bury(self) -> int:
        """Forget a process that has closed its end, or was killed; what it ended with."""
        with self._guard:
            process, asker = self._process, self._socket
            self._process = self._socket = None
            self._heard = b""
        if process is None or asker is None:
            return 0
        asker.close()
        try:
            return process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _environment() -> dict[str, str]:
    """What a worker may know of ours: where modules are."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {"PYTHONPATH": paths, "HOME": "/nonexistent", "LANG": "C.UTF-8"}
