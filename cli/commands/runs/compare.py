"""``runs compare``: the training loss of a run against that of a baseline run."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption, RunId
from cli.render.compare import compared, reported
from cli.wire import run_path


def compare(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    run_id: RunId,
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="BASELINE", help="The run to compare with, named likewise.", show_default=False
        ),
    ],
    window: Annotated[
        int, typer.Option(min=1, metavar="N", help="The number of steps averaged into each row.")
    ] = 10,
    margin: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="LOSS",
            help="The mean difference over a full window, either way, above which it is reported.",
        ),
    ] = 0.03,
    spike_factor: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            help="How many times its run's median a gradient norm must be to be a spike.",
        ),
    ] = 10.0,
    across_plans: Annotated[
        bool,
        typer.Option(
            "--across-plans", help="Compare two runs whose configurations or base models differ."
        ),
    ] = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit 1 if a window is reported.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Compare the training loss of a supervised run with that of a baseline run.

    A window is so many consecutive steps that both runs have; its difference is the mean loss of
    the run less that of the baseline. The first full window beyond the margin is reported.
    """
    if spike_factor <= 0:
        raise CommandError(f"--spike-factor is {spike_factor:g}, expected more than 0", Exit.USAGE)
    answer = client_of(context).get(
        run_path(run_id, "/compare"),
        baseline=baseline,
        window=window,
        margin=margin,
        spikeFactor=spike_factor,
        acrossPlans="true" if across_plans else None,
    )
    if output is Output.TEXT:
        terminal.write(compared(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if exit_status and answer["reported"]:
        raise CommandError(reported(answer), Exit.RUN_FAILED)
