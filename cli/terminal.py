"""Where text goes: data to stdout a whole line at a time, talk to stderr."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from cli import settings
from cli.errors import ClosedPipeError
from cli.options import PageMode
from cli.render.text import plain
from cli.shape import Shape, texts, visible


class _Manner(NamedTuple):
    """How the command at hand writes."""

    shape: Shape = Shape()
    page_mode: PageMode = PageMode.AUTO


_manner: ContextVar[_Manner] = ContextVar("manner", default=_Manner())  # noqa: B039 (it is frozen)


@contextmanager
def manner(shape: Shape, page_mode: PageMode | None) -> Iterator[None]:
    """Write in this manner until the end of the block."""
    token = _manner.set(_Manner(shape, page_mode or PageMode.AUTO))
    try:
        yield
    finally:
        _manner.reset(token)


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


def write(text: str, *, may_page: bool = True) -> None:
    """Write ``text`` as whole lines to stdout at once, or show it in the pager.

    Raises:
        ClosedPipeError: nobody reads stdout any more.
    """
    whole = text if text.endswith("\n") else f"{text}\n"
    if may_page and _is_for_pager(whole) and _page(whole):
        return
    with _reader_may_leave():
        sys.stdout.write(whole)
        sys.stdout.flush()


def write_json(value: Any, *, compact: bool) -> None:
    """Write ``value`` as JSON, or what the person wants of it.

    JSON holds no control byte and reads the same in every locale; what a jq expression or a
    template makes of it comes as it is, but for what a terminal would act upon.
    """
    shape = _manner.get().shape
    parts = list(texts(value, shape, compact=compact))
    if is_live() and (shape.jq is not None or shape.template is not None):
        parts = [visible(part) for part in parts]
    if parts:
        write("\n".join(parts))


def write_bytes(parts: Iterator[bytes]) -> None:
    """Write what is no text to stdout, as it comes.

    Raises:
        ClosedPipeError: nobody reads stdout any more.
    """
    with _reader_may_leave():
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def save(parts: Iterator[bytes], file: Path) -> None:
    """Write what comes into a file, which is there only once it is whole."""
    fresh = file.with_name(f"{file.name}.partial")
    try:
        with fresh.open("wb") as target:
            for part in parts:
                target.write(part)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def takes_unicode() -> bool:
    """Whether stdout can have every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _is_for_pager(text: str) -> bool:
    """Whether a person looks, and wants to turn pages."""
    mode = _manner.get().page_mode
    if mode is PageMode.BUFFERED or not is_live():
        return False
    return mode is PageMode.PAGED or text.count("\n") >= shutil.get_terminal_size().lines


def _page(text: str) -> bool:
    """Show ``text`` in the person's pager; False when they have none."""
    command = shlex.split(settings.pager())
    if not command or shutil.which(command[0]) is None:
        return False
    environment = settings.pager_environment(
        may_end_at_once=_manner.get().page_mode is PageMode.AUTO
    )
    subprocess.run(command, input=text, text=True, env=environment, check=False)  # noqa: S603 (theirs)
    return True


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
