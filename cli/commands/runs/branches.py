"""``runs branches``: what was asked for of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption, RunId
from cli.render.branches import branches
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client

PAGE = 100  # branches that are asked for at once


def list_branches(
    context: typer.Context,
    parent: RunId,
    submission: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Only what this submission token asked for."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 50,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the branches of a run, newest first, those that were refused too.

    With --submission, one branch as it is now, which the list may show a moment later. Exit 3
    means that nothing has arrived with the token.
    """
    client = client_of(context)
    if submission is None:
        answer = _pages(client, parent, as_of, limit)
    else:
        answer = client.get(run_path(parent, "/branches"), submission=submission, asOf=as_of)
    if output is Output.TEXT:
        terminal.write(branches(answer["branches"], width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def _pages(client: "Client", parent: str, as_of: str | None, limit: int) -> Json:
    """At most ``limit`` branches from as many pages as it takes, all of one moment."""
    found: list[Json] = []
    before: int | None = None
    moment: str | int | None = as_of
    while True:
        size = min(PAGE, limit - len(found))
        answer = client.get(run_path(parent, "/branches"), limit=size, before=before, asOf=moment)
        found += answer["branches"]
        before = answer["next"]
        if before is None or len(found) >= limit:
            return answer | {"branches": found}
        if "asOf" in answer:
            moment = answer["asOf"]["position"]
