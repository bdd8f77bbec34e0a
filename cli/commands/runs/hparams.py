"""``runs hparams``: the hyperparameters that a run is trained with."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AttemptNumber, Output, OutputOption, RunId
from cli.render.hparams import hyperparameters
from cli.wire import run_path


def show_hparams(
    context: typer.Context,
    run_id: RunId,
    attempt: AttemptNumber = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the hyperparameters of a run as its worker resolved them, every default included.

    They are there shortly after the job has started. Runs of the same settings and data have the
    same hash.
    """
    answer = client_of(context).get(run_path(run_id, "/hparams"), attempt=attempt)
    if output is Output.TEXT:
        terminal.write(hyperparameters(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
