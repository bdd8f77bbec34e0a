"""``snapshots sweep``: delete what the plan's keep counts leave over."""

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.options import Force, Output, OutputOption, RunId
from cli.render.text import count, size
from cli.wire import run_path


def sweep(
    context: typer.Context,
    run_id: RunId,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete the snapshots of a run that its plan does not keep.

    The saved one, pinned ones and one that is being gone on from are never deleted.
    """
    question = f"Delete the snapshots of run {run_id} that its plan does not keep?"
    confirm(question, settings_of(context), force=force)
    answer = client_of(context).post_and_wait(run_path(run_id, ":sweep"))
    if output is Output.TEXT:
        freed = answer["freedBytes"]
        terminal.write(f"run {answer['runId']}: {count(freed)} bytes freed ({size(freed)})")
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
