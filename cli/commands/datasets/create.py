"""``datasets create``: rows of a file, taken into the catalogue."""

import os
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of, settings_of
from cli.options import Output, OutputOption
from cli.render.datasets import detail, moved


def create(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The rows, JSON lines.", show_default=False)
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What plans may call it: dataset:NAME. A name that is in use is moved.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Take the rows of a file into the catalogue, where they never change.

    The same rows again are the same data set, however their lines are written. The server reads the
    file, so it is where the server runs, and keeps a copy in its home.
    """
    body = {"file": os.path.abspath(file), "name": name}  # noqa: PTH100  any text
    answer = client_of(context).post_and_wait("/v1/datasets", body)
    if output is Output.TEXT:
        terminal.write(detail(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not settings_of(context).quiet:
        terminal.say(moved(answer, name))
