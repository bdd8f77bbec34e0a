"""``datasets get``: one data set of the catalogue."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.datasets import detail
from cli.wire import dataset_path


def get_dataset(
    context: typer.Context,
    which: Annotated[
        str,
        typer.Argument(
            metavar="NAME|IDENTITY",
            help="A name, or the identity of a data set, or 8 digits of it.",
            show_default=False,
        ),
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Show a data set: its rows, its identity, and every name that was ever given to it."""
    answer = client_of(context).get(dataset_path(which))
    if output is Output.TEXT:
        terminal.write(detail(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
