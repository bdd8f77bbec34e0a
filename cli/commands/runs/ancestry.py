"""``runs ancestry``: what a run came from."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption, RunId
from cli.render.lineage import ancestry
from cli.wire import run_path


def show_ancestry(
    context: typer.Context,
    run_id: RunId,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the runs that a run came from, the first one first, and what each began from."""
    answer = client_of(context).get(run_path(run_id, "/ancestry"), asOf=as_of)
    if output is Output.TEXT:
        terminal.write(ancestry(answer["runs"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
