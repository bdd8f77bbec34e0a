"""Filling an empty home with a ledger that is elsewhere: what both ways to do it have in common."""

from pathlib import Path
from typing import Literal

import typer

from cli import offline, terminal
from cli.context import settings_of
from cli.options import Output
from cli.render.exchange import filled, goes_on


def fill(
    context: typer.Context, way: Literal["import", "restore"], source: Path, output: Output
) -> None:
    """Fill the home from ``source``, say with what, and which runs will go on there."""
    settings = settings_of(context)
    answer = offline.call(settings, way, source)
    if output is Output.TEXT:
        terminal.write(filled(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if answer["openRuns"] and not settings.quiet:
        terminal.say(goes_on(answer))
