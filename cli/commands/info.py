"""``info``: the service, its start-up checks and whether it is ready."""

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption
from cli.render.info import info


def show_info(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Show what the service is; exit 4 until it is ready."""
    answer = client_of(context).info()
    if output is Output.TEXT:
        terminal.write(info(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not answer["ready"]:
        raise CommandError(
            "the service is not ready yet", Exit.REFUSED, hint="try again in a moment"
        )
