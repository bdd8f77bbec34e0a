"""Processes: how those of a job are told from others, and killed with all that they began."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

KILL_SECONDS = 10.0  # so long the system may take to end what was killed

_DRIFT_SECONDS = 2.0  # the system's clock, and so its idea of past times, may be set right
_LOOK_SECONDS = 0.005


def identity(pid: int) -> dict[str, Any]:
    """What tells a process from a later one with the same id."""
    return {"pid": pid, "createdAt": psutil.Process(pid).create_time()}


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to every process of the group ``pid``; nothing where there is none."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def kill_group_of(said: dict[str, Any]) -> None:
    """Kill the group of the process with this identity, which may itself be gone.

    Raises:
        TimeoutError: something of it still runs.
    """
    pid = said["pid"]
    with suppress(psutil.NoSuchProcess):
        if abs(psutil.Process(pid).create_time() - said["createdAt"]) > _DRIFT_SECONDS:
            return  # the system gives no id away while a group of that id lives
    _kill_group(pid)


def kill_groups_of(worker: dict[str, Any] | None) -> None:
    """Kill the groups of all processes of a worker, as its file says them; one may have none.

    Raises:
        TimeoutError: something of it still runs.
    """
    if worker is None or worker["pid"] is None:
        return
    for each in [worker, *worker.get("others", [])]:
        kill_group_of(each)


def kill_tree(root: psutil.Process) -> None:
    """Kill ``root`` and its descendants, each with the group that it leads.

    Raises:
        TimeoutError: something of it still runs.
    """
    with suppress(psutil.NoSuchProcess):
        root.suspend()  # from here on it begins nothing
        for each in [root, *root.children(recursive=True)]:
            _kill(each)


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            _kill_group(process.pid)
        else:
            process.kill()
            _see(lambda: _is_dead(process))


def _kill_group(pid: int) -> None:
    def is_gone() -> bool:
        signal_group(pid, signal.SIGKILL)  # again, for what was begun just before
        return not any(_is_in(pid, each) for each in psutil.process_iter())

    _see(is_gone)


def _is_in(group: int, process: psutil.Process) -> bool:
    """Whether ``process`` is a running one of ``group``."""
    try:
        return os.getpgid(process.pid) == group and not _is_dead(process)
    except ProcessLookupError:
        return False


def _is_dead(process: psutil.Process) -> bool:
    """Whether ``process`` runs no more; its new parent may leave it unreaped."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _see(is_over: Callable[[], bool]) -> None:
    """Wait for the end of what was killed.

    Raises:
        TimeoutError: it does not end.
    """
    end = time.monotonic() + KILL_SECONDS
    while not is_over():
        if time.monotonic() > end:
            raise TimeoutError("a process that was killed still runs")
        time.sleep(_LOOK_SECONDS)
