"""Publishing: a whole copy of the warehouse for analysts, put in place in one move.

Nobody else can open the warehouse while the server works, not even to read, so others get a copy.
A reader of the old copy keeps it until it opens the new one.
"""

import os
import subprocess
import threading
import time
from pathlib import Path

import duckdb

from projections.warehouse.store import Warehouse

LOOK_SECONDS = 0.2  # between two looks at whether there is something new
PAUSE_SECONDS = 5.0  # between two copies while runs go on
SHARE = 20  # the pause is so many times as long as the newest copy took: at most 5 % of the time


class Publisher:
    """Keeps a copy at ``path``: at most every few seconds, and at once when a run has ended."""

    def __init__(self, warehouse: Warehouse, path: Path) -> None:
        self._warehouse = warehouse
        self.path = path
        self._stopping = threading.Event()
        self._moved = threading.Condition()
        self._published = -1  # position of the newest copy
        self._file = 0  # of the warehouse's files, which one it is a copy of
        self._wanted = -1  # position that somebody waits for
        self._thread = threading.Thread(target=self._keep, name="publish", daemon=True)
        self.failure: Exception | None = None  # why the newest copy is old; None while it is not

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """End after the copy at hand."""
        self._stopping.set()
        with self._moved:
            self._moved.notify_all()
        self._thread.join()

    def position(self) -> int:
        """Of the newest copy; -1 while there is none."""
        return self._published

    def wait_for(self, position: int, timeout: float) -> bool:
        """Have everything up to ``position`` published at once; False: it could not be."""
        with self._moved:
            self._wanted = max(self._wanted, position)
            self._moved.notify_all()
            self._moved.wait_for(
                lambda: self._has(position) or self._wanted < position or self._is_over, timeout
            )
            return self._has(position)

    def wait_for_ends(self, timeout: float) -> bool:
        """Have the end of every run published that the warehouse holds; False: not in time."""
        return self.wait_for(self._warehouse.newest_end, timeout)

    def _keep(self) -> None:
        due = 0.0
        while not self._stopping.is_set():
            with self._moved:
                self._moved.wait_for(self._is_urgent, LOOK_SECONDS)
            began = time.monotonic()
            is_due = began >= due or self._has_end() or self._is_urgent()
            is_current = self._file == self._warehouse.files
            if (is_current and self._warehouse.position() == self._published) or not is_due:
                continue
            self._publish()
            due = time.monotonic() + max(PAUSE_SECONDS, SHARE * (time.monotonic() - began))

    def _has_end(self) -> bool:
        """Whether a run has ended since the newest copy; a copy that fails waits for its turn."""
        return self.failure is None and self._published < self._warehouse.newest_end

    def _is_urgent(self) -> bool:
        """Whether somebody waits for what the warehouse holds by now, or we are to stop."""
        is_wanted = 0 <= self._wanted <= self._warehouse.position() and not self._has(self._wanted)
        return is_wanted or self._stopping.is_set()

    def _has(self, position: int) -> bool:
        """Whether the newest copy is of the file that is there now, and goes so far."""
        return self._published >= position and self._file == self._warehouse.files

    @property
    def _is_over(self) -> bool:
        """Whether nothing will be published any more, or is not yet."""
        return self._stopping.is_set() or not self._thread.is_alive()

    def _publish(self) -> None:
        file = self._warehouse.files  # before: one that is replaced meanwhile is published again
        try:
            published = publish(self._warehouse, self.path)
        except (duckdb.Error, OSError, subprocess.CalledProcessError) as error:
            self.failure = error  # info shows it; a later round tries again
            with self._moved:
                self._wanted = -1  # and nobody waits for that
                self._moved.notify_all()
            return
        self.failure = None
        with self._moved:
            self._published, self._file = published, file
            self._moved.notify_all()


def publish(warehouse: Warehouse, path: Path) -> int:
    """Put a copy of ``warehouse`` at ``path``, and answer the position that it holds.

    Raises:
        duckdb.Error: the warehouse cannot be written out just now.
        OSError, subprocess.CalledProcessError: the copy cannot be made.
    """
    fresh = path.with_name(f"{path.name}.new")
    with warehouse.still() as (file, position):
        # By another process: one that opens and closes the file in this one would give up the
        # lock that keeps strangers out of it (POSIX locks belong to the process).
        subprocess.run(["cp", "--reflink=auto", file, fresh], check=True)  # noqa: S603, S607
    descriptor = os.open(fresh, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(path)
    return position
