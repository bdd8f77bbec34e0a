"""The server of this account's own home: found by its file, started when it is not running."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli import settings
from cli.errors import CommandError, Exit, PassingError

STARTING_SECONDS = 60.0  # a cold start on two busy cores took 9 s (2026-11)
STOPPING_SECONDS = 10.0
POLL_SECONDS = 0.05

Server = dict[str, Any]  # what server.json says: pid, url, home, startedAt, version


def described(home: Path) -> Server | None:
    """What the newest server of ``home`` wrote about itself, whether it still runs or not."""
    try:
        said = json.loads((home / "server.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return said if isinstance(said, dict) and {"pid", "url"} <= said.keys() else None


def token(home: Path) -> str | None:
    """The token that the server left for clients of the same account."""
    try:
        return (home / "token").read_text().strip()
    except FileNotFoundError:
        return None


def running(home: Path) -> Server | None:
    """The server of ``home``, if one answers."""
    server = described(home)
    return server if server and is_alive(server["pid"]) and is_healthy(server["url"]) else None


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no corpse that nobody has buried yet."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def is_healthy(url: str) -> bool:
    """Whether a server answers at ``url``."""
    from cli import transport  # noqa: PLC0415 (httpx2 takes 0.2 s)

    return transport.is_healthy(url)


def ensure(home: Path, announce: Callable[[str], None]) -> Server:
    """The running server of ``home``, started first if need be; never two for one home.

    Raises:
        CommandError: it did not start; the sentence says where its log is.
    """
    server = running(home)
    if server:
        return server
    with _starting(home):
        server = running(home)
        return server or _start(home, announce)


@contextmanager
def _starting(home: Path) -> Iterator[None]:
    """Hold the right to start a server for ``home``; a second caller waits for the first."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Process(subprocess.Popen[bytes]):
    """A server's process, which goes on when the command that started it has ended."""

    def __del__(self) -> None:
        """Say nothing of that; Python would warn."""


def _start(home: Path, announce: Callable[[str], None]) -> Server:
    announce(f"starting a server for {home}")
    log = os.open(home / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = _Process(
            settings.server_command(),
            cwd=home,
            env=settings.server_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in this terminal is not meant for it
        )
    finally:
        os.close(log)
    return _started(home, process)


def _started(home: Path, process: _Process) -> Server:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        server = described(home)
        if server and server["pid"] == process.pid and is_healthy(server["url"]):
            return server
        if process.poll() is not None:
            other = running(home)  # somebody else started one at the same moment
            if other:
                return other
            raise PassingError(
                f"the server of {home} ended with {process.returncode} while it started: "
                f"{_last_line(home / 'server.log')}",
                hint=f"read {home / 'server.log'}",
            )
        time.sleep(POLL_SECONDS)
    raise PassingError(
        f"the server of {home} did not answer within {STARTING_SECONDS:.0f} s",
        hint=f"read {home / 'server.log'}",
    )


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it wrote nothing")


def stop(home: Path) -> Server | None:
    """Ask the server of ``home`` to end and wait for it; None when there was none.

    Raises:
        CommandError: it was still there after the wait.
    """
    server = running(home)
    if server is None:
        return None
    os.kill(server["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOPPING_SECONDS
    while is_alive(server["pid"]):
        if time.monotonic() > deadline:
            raise CommandError(
                f"the server {server['pid']} has not ended {STOPPING_SECONDS:.0f} s after SIGTERM",
                Exit.REFUSED,
                hint=f"read {home / 'server.log'}",
            )
        time.sleep(POLL_SECONDS)
    return server
