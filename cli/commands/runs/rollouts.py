"""``runs rollouts``: what the model made of its prompts at an update, and what that was worth."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import AsOf, Output, OutputOption, RunId, Superseded
from cli.render.rollouts import rollouts
from cli.wire import run_path

MOST = 200  # of one answer


def show_rollouts(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    run_id: RunId,
    step: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of this update; by default of the newest that has some."
        ),
    ] = None,
    worst: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="The N lowest scores, lowest first."),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="The N highest scores, highest first."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help=f"The first N that were scored; {MOST} by default."
        ),
    ] = None,
    superseded: Superseded = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="All that this attempt scored, and nothing else."),
    ] = None,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what the model answered at one update, with the score and its terms.

    A table cuts prompts, to their last message, and completions; -o json has them in full.
    """
    if sum(each is not None for each in (worst, best, limit)) > 1:
        raise CommandError("state one of --worst, --best and --limit", Exit.USAGE)
    answer = client_of(context).get(
        run_path(run_id, "/rollouts"),
        step=step,
        worst=worst,
        best=best,
        limit=limit,
        superseded="true" if superseded else None,
        attempt=attempt,
        asOf=as_of,
    )
    if output is Output.TEXT:
        order = "in the order of scoring"
        if worst is not None or best is not None:
            order = "lowest scores first" if best is None else "highest scores first"
        terminal.write(rollouts(answer, order, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
