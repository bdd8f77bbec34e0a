"""``server logs``: what the embedded server wrote."""

import time
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from cli import terminal
from cli.context import settings_of
from cli.errors import CommandError, Exit
from cli.render.text import plain

POLL_SECONDS = 0.2


def server_logs(
    context: typer.Context,
    lines: Annotated[int, typer.Option(min=0, metavar="N", help="The last so many lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new lines.")] = False,
) -> None:
    """Show the log of the server of this home."""
    log = settings_of(context).home / "server.log"
    try:
        _show(log, lines, follow=follow)
    except FileNotFoundError:
        raise CommandError(
            f"there is no log at {log}",
            Exit.NOT_FOUND,
            hint="no server was started in the background",
        ) from None


def _show(log: Path, lines: int, *, follow: bool) -> None:
    with log.open(encoding="utf-8", errors="replace") as text:
        for line in deque(text, maxlen=lines):
            terminal.write(plain(line.rstrip("\n")))
        while follow:
            line = text.readline()
            if line:
                terminal.write(plain(line.rstrip("\n")))
            else:
                time.sleep(POLL_SECONDS)
