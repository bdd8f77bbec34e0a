"""``runs wait``: follow a run until it ends."""

import typer

from cli.context import client_of, settings_of
from cli.options import ExitStatus, Output, OutputOption, RunId, WaitLimit
from cli.settings import seconds
from cli.waiting import Wait, wait
from cli.wire import run_path


def wait_for(
    context: typer.Context,
    run_id: RunId,
    timeout: WaitLimit = None,
    exit_status: ExitStatus = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Follow a run until it ends, then show it.

    With -o json: one event a line, the one that ended the run last, then the whole record. Ctrl-C
    and --timeout end the following, never the run.
    """
    limit = None if timeout is None else seconds(timeout, "--timeout")
    settings = settings_of(context)
    client = client_of(context)
    record = client.get(run_path(run_id))
    asked = Wait(record["runId"], output, limit, exit_status=exit_status)
    wait(client, settings, asked, record=record)
