"""Supervise: the runner's loop, from the first sign of life to the acknowledged exit."""

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from engine.runner.delivery import Answer, AwayError, Delivery, RefusedError
from engine.runner.exits import Exit
from engine.runner.job import Job
from engine.runner.tail import Tail
from engine.runner.wakeup import Wakeup
from engine.runner.worker import Worker, bury, forgo, start

BEAT_SECONDS = 1.5  # the server wants a sign of life every 2 s
LOOK_SECONDS = 0.02  # between two looks at a worker that says nothing
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 2.0  # between tries to reach a server


class Supervisor:
    """Carries one job out: its worker runs, its reports travel, its exit is said."""

    def __init__(self, job: Job, *, clock: Callable[[], float]) -> None:
        self._job = job
        self._clock = clock
        self._delivery = Delivery(job)
        self._runner = {"host": socket.gethostname(), "pid": os.getpid(), "startedAt": clock()}
        self._worker: Worker | None = None
        self._exit: Exit | None = None
        self._tail = Tail(job.spool)
        self._wakeup = Wakeup(job.spool)
        self._batch: list[str] = []  # read, not yet taken
        self._closed = self._acknowledged = False
        self._request: str | None = None  # what the server wants of the worker now
        self._terminate = False
        self._next_try = self._last_post = self._ended_at = 0.0  # monotonic
        self._pause = FIRST_PAUSE_SECONDS

    def terminate(self) -> None:
        """End the worker politely; safe inside a signal handler."""
        self._terminate = True

    def carry_out(self) -> bool:
        """Work until the server has everything; false where it never took it."""
        self._deliver()  # before the start: a job whose attempt is over starts nothing
        self._begin()
        while not self._is_over():
            if not self._tick():
                self._rest()
        self._delivery.close()
        self._say_what_is_left()
        return self._acknowledged or self._closed

    def _begin(self) -> None:
        """Start the worker, once in the life of the job folder."""
        if self._job.worker_file.exists():
            self._end(bury(self._job))
            return
        if self._closed:
            return
        if self._terminate or self._request is not None:
            self._end(forgo(self._job, self._clock))
            return
        begun = start(self._job, self._clock)
        if isinstance(begun, Worker):
            self._worker = begun
        else:
            self._end(begun)

    def _end(self, ended: Exit) -> None:
        """There is no worker any more."""
        self._worker, self._exit, self._ended_at = None, ended, time.monotonic()

    def _tick(self) -> bool:
        """One look at the worker, at the spool and at the time; whether there was something."""
        if self._worker is not None:
            self._watch(self._worker)
        if self._closed:
            return False
        if not self._batch:
            self._batch = self._tail.read()
        now = time.monotonic()
        something = self._batch or self._exit or now - self._last_post >= BEAT_SECONDS
        if not something or now < self._next_try:
            return False
        self._deliver()
        return True

    def _rest(self) -> None:
        """Sleep until there is something new.

        A worker whose lines cannot be handed over yet wakes nobody: each wake-up may take the
        processor from it (its report calls took twice as long that way, measured 2026-11-29).
        """
        if self._batch:
            time.sleep(LOOK_SECONDS)
        else:
            self._wakeup.wait(LOOK_SECONDS)

    def _watch(self, worker: Worker) -> None:
        """Pass on what is wanted of the worker, and see whether it has ended."""
        if self._closed or self._terminate:
            worker.terminate()
        else:
            worker.ask(self._request)
        worker.press()
        if worker.exit is not None:
            self._end(worker.exit)

    def _deliver(self) -> None:
        """Post what there is, or put it off."""
        body = self._body()
        try:
            answer = self._delivery.post(body)
        except AwayError:
            self._put_off()
        except RefusedError:
            self._closed = self._worker is None and self._exit is not None
            self._put_off()
        else:
            self._last_post = time.monotonic()
            self._next_try, self._pause = 0.0, FIRST_PAUSE_SECONDS
            self._heed(answer, body)

    def _body(self) -> dict[str, Any]:
        """The delivery: with the exit when no line comes after these."""
        ended = self._exit is not None and not self._tail.has_line()
        return {
            "first": self._tail.next_line - len(self._batch),
            "lines": self._batch,
            "runner": self._runner,
            "exit": self._exit.said() if self._exit is not None and ended else None,
        }

    def _heed(self, answer: Answer, body: dict[str, Any]) -> None:
        """Do what the server's answer asks for."""
        self._closed = answer.closed
        if not answer.is_gap:  # which says nothing about requests
            self._request = answer.request
        if answer.taken is None:
            return
        self._batch = []
        if answer.taken == self._tail.next_line - 1 and not answer.is_gap:
            self._acknowledged = body["exit"] is not None
            return
        self._tail.seek(answer.taken)
        if answer.is_gap or answer.taken < body["first"]:
            self._put_off()  # it took nothing of this: do not ask in a circle

    def _put_off(self) -> None:
        """Wait longer after each try that failed; give up where the job's folder was removed."""
        self._delivery.close()
        self._closed = self._closed or not self._job.folder.exists()
        self._next_try = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LAST_PAUSE_SECONDS)

    def _is_over(self) -> bool:
        """Whether the worker is gone and its reports are taken, unwanted or out of patience."""
        if self._worker is not None:
            return False
        if self._closed or self._acknowledged:
            return True
        return time.monotonic() - self._ended_at > self._job.patience_seconds

    def _say_what_is_left(self) -> None:
        """Tell the log about bytes that nobody will take."""
        left = self._tail.unread_bytes()
        self._tail.close()
        if left:
            sys.stderr.write(f"{left} bytes of the spool were not forwarded\n")
