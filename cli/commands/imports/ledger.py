"""``import ledger``: a ledger equal to one that was exported."""

from pathlib import Path
from typing import Annotated

import typer

from cli import offline, terminal
from cli.context import settings_of
from cli.options import Output, OutputOption
from cli.render.exchange import filled, goes_on


def import_ledger(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="What `export` wrote.", show_default=False),
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Make the ledger of this home equal to an exported one: same events, digests and positions.

    No server may work in the home (TRAINLEDGER_HOME), and its ledger has to be empty.
    """
    settings = settings_of(context)
    answer = offline.call(settings, "import", folder)
    if output is Output.TEXT:
        terminal.write(filled(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if answer["openRuns"] and not settings.quiet:
        terminal.say(goes_on(answer))
