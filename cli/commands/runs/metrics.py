"""``runs metrics``: what the engine measured, step by step."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption, RunId
from cli.render.metrics import metrics
from cli.wire import run_path


def show_metrics(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    run_id: RunId,
    fields: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these fields; terms:NAME is a reward term."),
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="STEP", min=0, help="From this step on.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="STEP", min=0, help="Up to this step.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last N steps.")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what the engine measured at each step."""
    names = [name for each in (fields or "").split(",") if (name := each.strip())]
    answer = client_of(context).get(
        run_path(run_id, "/metrics"),
        **{"fields": ",".join(names) or None, "from": first, "to": last, "limit": limit},
    )
    if output is Output.TEXT:
        terminal.write(metrics(answer, fields=names, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
