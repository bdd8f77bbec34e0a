"""``audit receipt``: a run on one page, with the digests that prove it."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption, RunId
from cli.render.audit import receipt
from cli.wire import run_path


def show_receipt(context: typer.Context, run_id: RunId, output: OutputOption = Output.TEXT) -> None:
    """Show what a run was, what it cost and who did what, with digests and the seal over them.

    Kept elsewhere, it proves later that the ledger still is what it was.
    """
    answer = client_of(context).get(run_path(run_id, "/receipt"))
    if output is Output.TEXT:
        terminal.write(receipt(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
