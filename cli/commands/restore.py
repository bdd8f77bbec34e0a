"""``restore``: the ledger of a backup, in a home of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from cli import offline, terminal
from cli.context import settings_of
from cli.options import Output, OutputOption
from cli.render.exchange import filled, goes_on


def restore(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `backup` wrote.", show_default=False)
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Put the ledger of a backup into this home; its projections are made anew when it is used.

    No server may work in the home (TRAINLEDGER_HOME), and its ledger has to be empty.
    """
    settings = settings_of(context)
    answer = offline.call(settings, "restore", file)
    if output is Output.TEXT:
        terminal.write(filled(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if answer["openRuns"] and not settings.quiet:
        terminal.say(goes_on(answer))
