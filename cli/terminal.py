"""Where text goes: data to stdout a whole line at a time, talk to stderr."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli import settings
from cli.errors import ClosedPipeError
from cli.render.text import plain


def prepare() -> None:
    """Make both outputs take any character, whatever the locale; a closed one takes it nowhere."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 (open to the end)
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for each in (sys.stdout, sys.stderr):
        each.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipeError from None


def write(text: str) -> None:
    """Write ``text`` as whole lines to stdout at once.

    Raises:
        ClosedPipeError: nobody reads stdout any more.
    """
    with _reader_may_leave():
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()


def write_json(value: Any, *, compact: bool) -> None:
    """Write ``value`` as JSON that holds no control byte and reads the same in every locale."""
    if compact:
        write(json.dumps(value, separators=(",", ":"), allow_nan=False))
    else:
        write(json.dumps(value, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Tell the person something that is not data; hostile characters are escaped."""
    with _reader_may_leave():
        for line in text.split("\n"):
            sys.stderr.write(f"{plain(line)}\n")
        sys.stderr.flush()


def finish() -> bool:
    """Flush what is left; False when nobody reads it, and then nothing more is tried at exit."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        discard()
        return False
    return True


def discard() -> None:
    """Send everything that is still written to nowhere, so that the interpreter ends quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for each in (sys.stdout, sys.stderr):
        os.dup2(nowhere, each.fileno())


def width() -> int | None:
    """Columns to keep to; None in a pipe, where nothing needs to be shortened."""
    stated = settings.columns()
    if stated is not None:
        return stated
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_live() -> bool:
    """Whether stdout can be redrawn."""
    return sys.stdout.isatty()


def can_ask() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Whether the person at the terminal agrees; Enter means yes."""
    sys.stderr.write(f"{plain(question)} [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer != "" and answer.strip().lower() in ("", "y", "yes")
