"""``restore``: the ledger of a backup, in a home of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from cli.filling import fill
from cli.options import Output, OutputOption


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
    fill(context, "restore", file, output)
