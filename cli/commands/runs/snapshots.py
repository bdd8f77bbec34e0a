"""``runs snapshots``: what a run saved, and what is kept of it."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption, RunId
from cli.render.snapshots import snapshots
from cli.wire import run_path


def show_snapshots(
    context: typer.Context,
    run_id: RunId,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the snapshots of a run, newest first."""
    answer = client_of(context).get(run_path(run_id, "/snapshots"), asOf=as_of)
    if output is Output.TEXT:
        terminal.write(snapshots(answer["snapshots"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
