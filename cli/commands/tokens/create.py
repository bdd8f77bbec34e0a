"""``tokens create``: a token for somebody else, or for a program."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of, settings_of
from cli.errors import PassingError
from cli.options import Output, OutputOption, Role
from cli.render.text import plain
from cli.render.tokens import end
from cli.settings import seconds


def create_token(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Who it is for, or what: what happens with it is said to be by user/NAME.",
            show_default=False,
        ),
    ],
    role: Annotated[
        Role,
        typer.Option(
            metavar="ROLE",
            help="reader: look; submitter: also start, branch, pause and annotate runs; operator: "
            "everything.",
            show_default=False,
        ),
    ],
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long it counts (12h, 30d); by default until it is revoked.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a token. It is written to stdout this once; the server keeps its digest alone."""
    limit = None if expires is None else seconds(expires, "--expires")
    body = {"name": name, "role": role.value, "expiresSeconds": limit}
    try:
        made = client_of(context).post("/v1/tokens", body)
    except PassingError as error:
        if error.sent:
            error.hint = f"if it was made, nobody has it: trainledger tokens revoke {name}"
        raise
    if output is Output.TEXT:
        terminal.write(f"{made['token']}\n")
    else:
        terminal.write_json(made, compact=output is Output.JSON_COMPACT)
    if not settings_of(context).quiet:
        terminal.say(
            f"token {plain(made['name'])} ({plain(made['tokenId'])}) with the role "
            f"{plain(made['role'])} {end(made)}; it is shown this once"
        )
