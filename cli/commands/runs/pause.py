"""``runs pause``: have a run give its devices back, and keep what it did."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit
from cli.follow import follow
from cli.options import Force, Output, OutputOption, RunId
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client


class Checkpoint(StrEnum):
    """What becomes of the updates since the newest snapshot."""

    SAVE = "save"
    LATEST = "latest"


CHOICE = """\
--checkpoint is needed, for the updates since the newest snapshot:
  save    keep them: the worker saves before it ends, and if it cannot the run goes on
  latest  give them up: the worker ends at once, and they are repeated later"""


def pause(
    context: typer.Context,
    run_id: RunId,
    checkpoint: Annotated[
        Checkpoint | None,
        typer.Option(
            metavar="save|latest",
            help="save: keep every update so far; latest: give up those since the newest snapshot. "
            "[required]",
            show_default=False,
        ),
    ] = None,
    until_paused: Annotated[
        bool, typer.Option("--wait", help="Return when it is PAUSED; exit 1 if it is not.")
    ] = False,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Pause a run: its devices are free until it is resumed.

    Returns as soon as that is accepted, or with --wait when it is PAUSED.
    """
    if checkpoint is None:
        raise CommandError(CHOICE, Exit.USAGE)
    settings = settings_of(context)
    confirm(f"Pause run {run_id}?", settings, force=force)
    client = client_of(context)
    before = client.get(run_path(run_id))  # what comes after it is followed, none of it is missed
    answer = client.post(run_path(run_id, ":pause"), {"checkpoint": checkpoint.value})
    if until_paused and answer["phase"] != "PAUSED":
        answer = _paused(client, before)
    if output is not Output.TEXT:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
        return
    terminal.write(f"run {answer['runId']} is {answer['phase']}")
    if answer["phase"] == "PAUSED" and not settings.quiet:
        terminal.say(f"resume it with `trainledger runs resume {answer['runId']}`")


def _paused(client: "Client", before: Json) -> Json:
    """What the service says of the pause once the run is PAUSED.

    Raises:
        CommandError: the run goes on, or has ended.
    """
    run_id = before["runId"]
    try:
        for event in follow(client, run_id, after=before["position"]):
            if event["kind"] == "pauseFailed":
                raise CommandError(
                    f"run {run_id} was not paused and goes on: {event['reason']}", Exit.RUN_FAILED
                )
            if event.get("phase") == "PAUSED":
                break
            if event.get("terminal"):
                raise CommandError(
                    f"run {run_id} ended {event['phase']} before it was paused", Exit.RUN_FAILED
                )
    except KeyboardInterrupt:
        raise CommandError(
            f"stopped following; run {run_id} is being paused all the same", Exit.INTERRUPTED
        ) from None
    record = client.get(run_path(run_id))
    return {name: record[name] for name in ("runId", "phase", "pause")}
