"""``server status``: whether the embedded server runs, and where."""

import typer

from cli import embedded, terminal
from cli.context import settings_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption


def server_status(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Show whether the server of this home runs; exit 5 if it does not."""
    home = settings_of(context).home
    server = embedded.running(home)
    if output is not Output.TEXT:
        said = {**(server or {"home": str(home)}), "running": server is not None}
        terminal.write_json(said, compact=output is Output.JSON_COMPACT)
    elif server:
        terminal.write(f"running at {server['url']} (process {server['pid']}, home {home})")
    if server is None:
        raise CommandError(
            f"no server is running for {home}",
            Exit.UNREACHABLE,
            hint="`trainledger server start` starts one, and so does any other command",
        )
