"""``tokens whoami``: as whom the service knows this call."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.tokens import asker


def show_asker(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Show whose token this call carries, its role, and when it expires."""
    answer = client_of(context).get("/v1/whoami")
    if output is Output.TEXT:
        terminal.write(asker(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
