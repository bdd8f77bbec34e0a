"""``runs events``: the ledger's own words about a run."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.follow import follow, so_far
from cli.options import Output, OutputOption, RunId
from cli.render.events import event_line


def show_events(
    context: typer.Context,
    run_id: RunId,
    after: Annotated[
        int, typer.Option(metavar="POSITION", min=0, help="Only events after this position.")
    ] = 0,
    keep_following: Annotated[
        bool, typer.Option("--follow", help="Go on with new events until the run ends.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show every event of a run, one a line."""
    client = client_of(context)
    events = (follow if keep_following else so_far)(client, run_id, after=after)
    try:
        for event in events:
            if output is Output.TEXT:
                terminal.write(event_line(event))
            else:
                terminal.write_json(event, compact=True)
    except KeyboardInterrupt:
        raise CommandError(f"stopped following; run {run_id} goes on", Exit.INTERRUPTED) from None
