"""``runs list``: runs, newest first."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption
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
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List runs, newest first."""
    client = client_of(context)
    asked = {"phase": [_phase(each) for each in phase or []] or None, "project": project}
    answer = _pages(client, asked | {"asOf": as_of}, limit)
    if output is Output.TEXT:
        terminal.write(runs(answer["runs"], now=_now(answer), width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def _phase(name: str) -> str:
    return name if name == "open" else name.upper()


def _now(answer: Json) -> datetime:
    """What ages are counted to: the moment that is asked for, or that of the person who looks."""
    if "asOf" in answer:
        return datetime.fromisoformat(answer["asOf"]["at"])
    return datetime.now(UTC)  # noqa: TID251 (the edge)


def _pages(client: "Client", asked: Json, limit: int) -> Json:
    """At most ``limit`` runs from as many pages as it takes, all of one moment."""
    found: list[Json] = []
    before: str | None = None
    while True:
        size = min(PAGE, limit - len(found))
        answer = client.get("/v1/runs", **asked, limit=size, before=before)
        found += answer["runs"]
        before = answer.get("next")
        if before is None or len(found) >= limit or not answer["runs"]:
            return answer | {"runs": found}
        if "asOf" in answer:
            asked |= {"asOf": answer["asOf"]["position"]}
