"""``runs get``: one run in State, Results and Cost."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import AsOf, DetailOutput, RunId
from cli.render.run import detail
from cli.wire import run_path


def get(
    context: typer.Context,
    run_id: RunId,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show the settings as well, as -o wide does.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Show the settings that this attempt had."),
    ] = None,
    as_of: AsOf = None,
    output: Annotated[
        DetailOutput,
        typer.Option("-o", "--output", metavar="FORMAT", help="text, wide, json or json-compact."),
    ] = DetailOutput.TEXT,
) -> None:
    """Show one run: its state, its results and its cost."""
    if attempt is not None and output is DetailOutput.TEXT and not settings:
        raise CommandError("--attempt says whose settings are shown: add --settings", Exit.USAGE)
    record = client_of(context).get(run_path(run_id), attempt=attempt, asOf=as_of)
    if output in (DetailOutput.JSON, DetailOutput.JSON_COMPACT):
        terminal.write_json(record, compact=output is DetailOutput.JSON_COMPACT)
        return
    wide = settings or output is DetailOutput.WIDE
    terminal.write(detail(record, width=terminal.width(), with_settings=wide, attempt=attempt))
