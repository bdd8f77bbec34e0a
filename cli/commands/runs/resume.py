"""``runs resume``: have a paused run go on."""

from typing import Annotated

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.options import Force, Output, OutputOption, RunId
from cli.waiting import Wait, wait
from cli.wire import run_path


def resume(
    context: typer.Context,
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--wait", help="Follow the run until it ends.")] = False,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Resume a paused run from its saved step.

    Returns as soon as that is accepted. What it did after that step is repeated.
    """
    settings = settings_of(context)
    confirm(f"Resume run {run_id}?", settings, force=force)
    client = client_of(context)
    answer = client.post(run_path(run_id, ":resume"))
    if output is Output.TEXT:
        terminal.write(f"run {answer['runId']} is {answer['phase']}")
    elif not follow:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if follow:
        record = client.get(run_path(answer["runId"]))
        asked = Wait(answer["runId"], output, limit_seconds=None, exit_status=False)
        wait(client, settings, asked, record=record)
