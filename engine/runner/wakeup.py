"""Wakeup: sleeps until a file grows, so that a quiet job costs no processor time."""

import ctypes
import os
import select
import time
from pathlib import Path

_IN_MODIFY = 2
_EVENT_BYTES = 4_096
_LOOK_SECONDS = 0.003  # between two looks at the file where the system tells nothing

_libc = ctypes.CDLL(None, use_errno=True)


class Wakeup:
    """Watches one file of this machine.

    Source: Linux, inotify(7). Where it may not watch another file, waits are short instead.
    """

    def __init__(self, path: Path) -> None:
        self._poll = select.poll()
        self._events: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_told = (
            self._events >= 0
            and _libc.inotify_add_watch(self._events, os.fsencode(path), _IN_MODIFY) >= 0
        )
        if self._is_told:
            self._poll.register(self._events, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Return when the file was written to since the last wait, at the latest after so long."""
        if not self._is_told:
            time.sleep(min(seconds, _LOOK_SECONDS))
        elif self._poll.poll(seconds * 1000):
            os.read(self._events, _EVENT_BYTES)
