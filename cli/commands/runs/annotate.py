"""``runs annotate``: a name, a description, labels, at any time."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption, RunId
from cli.render.annotations import annotated
from cli.wire import run_path


def annotate(
    context: typer.Context,
    run_id: RunId,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="The name of the run.")] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The description of the run.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label; KEY= takes it away. Repeatable."),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Put words to a run, whether it has ended or not; ids and settings stay as they are.

    An empty text takes a word away, and what is not stated stays.
    """
    labels = dict(_label(each) for each in label or [])
    if name is None and description is None and not labels:
        raise CommandError("--name, --description or --label is needed", Exit.USAGE)
    answer = client_of(context).post(
        run_path(run_id, ":annotate"),
        {"name": name, "description": description, "labels": labels},
    )
    if output is Output.TEXT:
        terminal.write(annotated(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def _label(text: str) -> tuple[str, str]:
    """The key and the value of a label.

    Raises:
        CommandError: it has no key, or no sign between the two.
    """
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise CommandError(f"--label is {text!r}, expected KEY=VALUE", Exit.USAGE)
    return key, value
