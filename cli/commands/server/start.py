"""``server start``: start the embedded server."""

import typer

from cli import embedded, terminal
from cli.context import settings_of


def start_server(context: typer.Context) -> None:
    """Start the server of this home in the background and print its URL."""
    settings = settings_of(context)
    server = embedded.running(settings.home)
    if server:
        terminal.write(f"already running at {server['url']} (process {server['pid']})")
        return
    server = embedded.ensure(settings.home, _quiet)
    terminal.write(f"running at {server['url']} (process {server['pid']})")


def _quiet(_sentence: str) -> None:
    """Nothing is announced: starting is what was asked for."""
