"""``runs list``: runs, newest first."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.runs import runs
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client

PAGE = 100  # runs that are asked for at once


def list_runs(
    context: typer.Context,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE", help="Only runs in this phase; open: not ended. Repeatable."),
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only runs of this project.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many runs.")] = 50,
    output: OutputOption = Output.TEXT,
) -> None:
    """List runs, newest first."""
    client = client_of(context)
    answer = _pages(client, [_phase(each) for each in phase or []], project, limit)
    if output is Output.TEXT:
        now = datetime.now(UTC)  # noqa: TID251 (the edge: ages are for the person who looks)
        terminal.write(runs(answer["runs"], now=now, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def _phase(name: str) -> str:
    return name if name == "open" else name.upper()


def _pages(client: "Client", phases: list[str], project: str | None, limit: int) -> Json:
    """At most ``limit`` runs from as many pages as it takes."""
    found: list[Json] = []
    before: str | None = None
    while True:
        size = min(PAGE, limit - len(found))
        answer = client.get(
            "/v1/runs", phase=phases or None, project=project, limit=size, before=before
        )
        found += answer["runs"]
        before = answer.get("next")
        if before is None or len(found) >= limit or not answer["runs"]:
            return {"runs": found, "next": before}
