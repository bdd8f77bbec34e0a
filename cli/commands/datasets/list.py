"""``datasets list``: the catalogue."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.datasets import datasets


def list_datasets(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """List every data set of the catalogue, oldest first, with the names that mean it now."""
    answer = client_of(context).get("/v1/datasets")
    if output is Output.TEXT:
        terminal.write(datasets(answer["datasets"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
