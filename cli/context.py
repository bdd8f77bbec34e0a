"""What every command gets from the options before it: its settings, and a client that has them."""

from typing import TYPE_CHECKING

import typer

from cli.settings import Settings, resolve

if TYPE_CHECKING:
    from cli.client import Client


def settings_of(context: typer.Context) -> Settings:
    """The settings of this call, from what its options say.

    Raises:
        CommandError: they, the environment or the file of contexts say what cannot be.
    """
    return resolve(context.find_root().obj)


def client_of(context: typer.Context) -> "Client":
    """A client for this call; the embedded server is started if it is meant and not there."""
    from cli.client import Client  # noqa: PLC0415 (httpx2 takes 0.2 s, and --help needs none)

    client = Client(settings_of(context))
    context.call_on_close(client.close)
    return client
