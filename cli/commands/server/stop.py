"""``server stop``: end the embedded server."""

import typer

from cli import embedded, terminal
from cli.context import settings_of


def stop_server(context: typer.Context) -> None:
    """Stop the server of this home; training goes on without it."""
    settings = settings_of(context)
    server = embedded.stop(settings.home)
    if server is None:
        terminal.write(f"no server was running for {settings.home}")
    else:
        terminal.write(f"stopped the server {server['pid']} of {settings.home}")
