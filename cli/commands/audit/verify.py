"""``audit verify``: whether the ledger is what was once written."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption
from cli.render.audit import remedy, verdict


def verify(
    context: typer.Context,
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Only this run, and what the seals say of it; else everything.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check every event, every seal and every projection; exit 1 if anything differs.

    Events are checked against their chains and the seals first. Only when these are whole, they are
    replayed and compared with what the projections hold.
    """
    answer = client_of(context).post_and_wait("/v1/audit", run=run_id)
    if output is Output.TEXT:
        terminal.write(verdict(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not answer["ok"]:
        raise CommandError("the audit found faults", Exit.RUN_FAILED, hint=remedy(answer["faults"]))
