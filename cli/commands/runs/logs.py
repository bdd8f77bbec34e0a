"""``runs logs``: what the worker of an attempt printed."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit, PassingError
from cli.options import RunId
from cli.render.text import printed
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client


def show_logs(
    context: typer.Context,
    run_id: RunId,
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Of this attempt, not of the last one.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new lines until the attempt is over.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only the last N lines.")
    ] = None,
) -> None:
    """Show what the worker of a run printed."""
    client = client_of(context)
    try:
        if follow:
            _follow(client, run_id, attempt, tail)
        else:
            _show(client, run_id, attempt=attempt, tail=tail)
    except KeyboardInterrupt:
        raise CommandError(f"stopped following; run {run_id} goes on", Exit.INTERRUPTED) from None


def _show(client: "Client", run_id: str, **parameters: int | str | None) -> None:
    for line in client.text(run_path(run_id, "/logs"), **parameters):
        terminal.write(printed(line))


def _follow(client: "Client", run_id: str, attempt: int | None, tail: int | None) -> None:
    """Show lines until the attempt is over.

    Raises:
        PassingError: the service stopped before that.
    """
    number = attempt or _newest(client.get(run_path(run_id)))
    _show(client, run_id, attempt=number, tail=tail, follow="true")
    record = client.get(run_path(run_id))
    if any(each["attempt"] == number and not each["closedAt"] for each in record["attempts"]):
        raise PassingError(
            f"the service ended the log; attempt {number} of run {record['runId']} goes on",
            hint="the same call shows the rest of it",
        )


def _newest(record: Json) -> int | None:
    """The number of the newest attempt; None where there is none, which the service then says."""
    return record["attempts"][-1]["attempt"] if record["attempts"] else None
