"""``import ledger``: a ledger equal to one that was exported."""

from pathlib import Path
from typing import Annotated

import typer

from cli.filling import fill
from cli.options import Output, OutputOption


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
    fill(context, "import", folder, output)
