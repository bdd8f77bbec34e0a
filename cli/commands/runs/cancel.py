"""``runs cancel``: ask for a run to end."""

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.options import Force, Output, OutputOption, RunId
from cli.wire import run_path


def cancel(
    context: typer.Context,
    run_id: RunId,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Cancel a run; returns as soon as that is accepted."""
    settings = settings_of(context)
    confirm(f"Cancel run {run_id}?", settings, force=force)
    answer = client_of(context).post(run_path(run_id, ":cancel"))
    if output is Output.TEXT:
        terminal.write(f"run {answer['runId']} is {answer['phase']}")
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
