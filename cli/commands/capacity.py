"""``capacity``: the devices of the service, who holds them and who waits."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.capacity import capacity


def show_capacity(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Show which run holds each device, and which runs wait for what, the next one first."""
    answer = client_of(context).get("/v1/capacity")
    if output is Output.TEXT:
        terminal.write(capacity(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
