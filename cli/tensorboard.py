"""TensorBoard in a process of its own, for this machine alone."""

import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli import settings
from cli.errors import CommandError, Exit

HOST = "127.0.0.1"  # TensorBoard asks for no token, so nobody else may reach it
STARTING_SECONDS = 60.0  # a start on two busy cores took 6 s (2026-11)
STOPPING_SECONDS = 5.0
POLL_SECONDS = 0.05
RELOAD_SECONDS = 1  # that it rests between two looks at its files
SAMPLES = 10_000  # points of a curve that it keeps; of a longer one it leaves some out
_ADDRESS = re.compile(r"TensorBoard \S+ at (http://\S+)")


@dataclass(frozen=True)
class Board:
    """A running TensorBoard."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """See that it still runs.

        Raises:
            CommandError: it does not.
        """
        if self.process.poll() is not None:
            raise _ended(self.process, self.log)


def require() -> None:
    """See that TensorBoard can be started at all, without loading it.

    Raises:
        CommandError: it is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise CommandError(
            "TensorBoard is not installed beside this command",
            Exit.REFUSED,
            hint="pip install 'trainledger[tensorboard]', or --download-only for another one",
        )


@contextmanager
def serving(logdir: Path, port: int, log: Path) -> Iterator[Board]:
    """TensorBoard over a folder until the end of the block; port 0 is one that is free.

    Raises:
        CommandError: it did not start.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            _command(logdir, port),
            env=settings.tool_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield _started(process, log)
    finally:
        _stop(process)


def _command(logdir: Path, port: int) -> list[str]:
    options = {
        "logdir": str(logdir),
        "host": HOST,
        "port": str(port),
        "reload_interval": str(RELOAD_SECONDS),
        "samples_per_plugin": f"scalars={SAMPLES}",
        # The other loader does not know session starts: it forgets what a restore took back of a
        # curve only once that curve has a new point.
        "load_fast": "false",
    }
    stated = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [sys.executable, "-P", "-m", "tensorboard.main", *stated]


def _started(process: "subprocess.Popen[bytes]", log: Path) -> Board:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        if found := _ADDRESS.search(log.read_text(errors="replace")):
            return Board(found[1], process, log)
        if process.poll() is not None:
            raise _ended(process, log)
        time.sleep(POLL_SECONDS)
    raise CommandError(
        f"TensorBoard did not start within {STARTING_SECONDS:.0f} s", Exit.UNREACHABLE
    )


def _ended(process: "subprocess.Popen[bytes]", log: Path) -> CommandError:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "it said nothing")
    return CommandError(
        f"TensorBoard ended with {process.returncode}: {last.removeprefix('ERROR: ')}", Exit.REFUSED
    )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOPPING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
