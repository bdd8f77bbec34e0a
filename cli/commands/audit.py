"""``audit verify``: whether the ledger is what was once written."""

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption
from cli.render.info import audit


def verify(context: typer.Context, output: OutputOption = Output.TEXT) -> None:
    """Check every event and every projection; exit 1 if anything differs."""
    answer = client_of(context).post_and_wait("/v1/audit")
    if output is Output.TEXT:
        terminal.write(audit(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not answer["ok"]:
        raise CommandError("the audit found faults", Exit.RUN_FAILED)
