"""``audit keygen``: the key that seals are signed with."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.text import plain


def make_key(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Make the key that the server signs its seals with from now on; one that is there stays.

    The key stays in the server's home. Note the public part elsewhere: it tells the server's own
    signatures from those of somebody who has changed the ledger and sealed it again.
    """
    answer = client_of(context).post("/v1/audit/key")
    if output is Output.TEXT:
        terminal.write(f"public key {plain(answer['publicKey'])}\nin {plain(answer['file'])}\n")
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
