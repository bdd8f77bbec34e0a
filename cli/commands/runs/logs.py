"""``runs logs``: what the worker of an attempt, or a preparation, printed."""

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
    preparation: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of this preparation, and of no attempt."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new lines until its work is over.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only the last N lines.")
    ] = None,
) -> None:
    """Show what the worker of a run printed, or, before its first attempt, its preparation."""
    if attempt is not None and preparation is not None:
        raise CommandError("state --attempt or --preparation, not both", Exit.USAGE)
    client = client_of(context)
    asked = {"attempt": attempt, "preparation": preparation}
    try:
        if follow:
            _follow(client, run_id, {name: n for name, n in asked.items() if n}, tail)
        else:
            _show(client, run_id, **asked, tail=tail)
    except KeyboardInterrupt:
        raise CommandError(f"stopped following; run {run_id} goes on", Exit.INTERRUPTED) from None


def _show(client: "Client", run_id: str, **parameters: int | str | None) -> None:
    for line in client.text(run_path(run_id, "/logs"), **parameters):
        terminal.write(printed(line))


def _follow(client: "Client", run_id: str, asked: dict[str, int], tail: int | None) -> None:
    """Show lines until the work that is asked for is over.

    Raises:
        PassingError: the service stopped before that.
    """
    job = asked or _newest(client.get(run_path(run_id)))
    _show(client, run_id, **job, tail=tail, follow="true")
    record = client.get(run_path(run_id))
    for kind, number in job.items():
        jobs = record.get(f"{kind}s") or []
        if any(each[kind] == number and not each["closedAt"] for each in jobs):
            raise PassingError(
                f"the service ended the log; {kind} {number} of run {record['runId']} goes on",
                hint="the same call shows the rest of it",
            )


def _newest(record: Json) -> dict[str, int]:
    """The newest attempt, or preparation; nothing where there is none, which the service says."""
    for kind in ("attempt", "preparation"):
        if jobs := record.get(f"{kind}s"):
            return {kind: jobs[-1][kind]}
    return {}
