"""``runs tree``: every generation of the runs that began from one another."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption, RunId
from cli.render.lineage import tree
from cli.wire import run_path


def show_tree(
    context: typer.Context,
    run_id: RunId,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the whole tree of branches that a run is in, from its root."""
    answer = client_of(context).get(run_path(run_id, "/tree"), asOf=as_of)
    if output is Output.TEXT:
        terminal.write(tree(answer["runs"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
