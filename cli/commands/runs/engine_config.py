"""``runs engine-config``: what the engine was asked for, and what it made of it."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AttemptNumber, Output, OutputOption, RunId
from cli.render.engine_config import engine_config
from cli.wire import run_path


def show_engine_config(
    context: typer.Context,
    run_id: RunId,
    attempt: AttemptNumber = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the configuration of a run's engine, which is there before the first step.

    Each setting that was requested, and a second value where the engine resolved it differently.
    The JSON has the whole: --jq .resolved.adam_beta1 reads a default that nobody stated.
    """
    answer = client_of(context).get(run_path(run_id, "/engine-config"), attempt=attempt)
    if output is Output.TEXT:
        terminal.write(engine_config(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
