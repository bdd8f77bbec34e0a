"""``tokens revoke``: the end of a token."""

from typing import Annotated

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.options import Force, Output, OutputOption
from cli.render.text import plain
from cli.wire import token_path


def revoke_token(
    context: typer.Context,
    which: Annotated[
        str,
        typer.Argument(
            metavar="NAME|ID",
            help="The name of a token, or its id; of several with a name, the newest is meant.",
            show_default=False,
        ),
    ],
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Revoke a token: it counts no more, and what is followed with it ends."""
    confirm(f"Revoke token {which}?", settings_of(context), force=force)
    answer = client_of(context).post(token_path(which, ":revoke"))
    if output is Output.TEXT:
        name, token_id = plain(answer["name"]), plain(answer["tokenId"])
        terminal.write(f"token {name} ({token_id}) counts no more\n")
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
