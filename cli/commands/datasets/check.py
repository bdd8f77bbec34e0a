"""``datasets check``: whether a run would take a file of rows, and how they fit."""

from pathlib import Path
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption
from cli.plans import absolute, rows_of
from cli.render.datasets import verdict


def check(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The rows, JSON lines; or dataset:NAME, of the catalogue.",
            show_default=False,
        ),
    ],
    base_model: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="The base model, as a plan names it.", show_default=False
        ),
    ],
    max_seq_length: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Tokens of one sequence; by default that of a plan."),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check rows as a run would, without a run; exit 1 if one would refuse them.

    The server reads the file and the base model, so both are where it runs.
    """
    stated = {} if max_seq_length is None else {"maxSeqLength": max_seq_length}
    model = absolute({"baseModel": base_model}, Path.cwd())
    asked = {"dataset": rows_of(file), **model, **stated}
    answer = client_of(context).post_and_wait("/v1/datasets:check", asked)
    if output is Output.TEXT:
        terminal.write(verdict(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not answer["accepted"]:
        raise CommandError("a run would refuse these rows", Exit.RUN_FAILED)
