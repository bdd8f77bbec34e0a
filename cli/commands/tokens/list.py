"""``tokens list``: who may ask."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.tokens import tokens


def list_tokens(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """List every token that was ever made: role, whether it counts, who made and who revoked it."""
    answer = client_of(context).get("/v1/tokens")
    if output is Output.TEXT:
        terminal.write(tokens(answer["tokens"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
