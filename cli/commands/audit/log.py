"""``audit log``: who did what to a run, and when."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption, RunId
from cli.render.audit import log
from cli.wire import run_path


def show_log(context: typer.Context, run_id: RunId, output: OutputOption = Output.TEXT) -> None:
    """Show the life of a run: position, time, who caused it, and what.

    What its attempts reported is not in it; `runs events` has that.
    """
    answer = client_of(context).get(run_path(run_id, "/audit-log"))
    if output is Output.TEXT:
        terminal.write(log(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
