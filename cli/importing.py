"""What all commands that import a run have in common: their options, the request, the answer."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output, OutputOption
from cli.render.imports import imported

if TYPE_CHECKING:
    from cli.histories.history import History


def importing(read: Callable[..., "History"]) -> Callable[..., None]:
    """The command that imports what ``read`` reads, with the options that all such commands have.

    What ``read`` takes comes before these, and its docstring is that of the command.
    """
    own = inspect.signature(read).parameters
    context, _, *shared = inspect.signature(_submit).parameters.values()

    @functools.wraps(read)
    def command(context: typer.Context, **options: Any) -> None:
        history = read(**{name: options.pop(name) for name in own})
        _submit(context, history, **options)

    parameters = [context, *own.values(), *shared]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__dict__["__signature__"] = inspect.Signature(
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    )
    return command


def _submit(  # noqa: PLR0913 (one for each option)
    context: typer.Context,
    history: "History",
    *,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which numbers are the training loss; else loss or train/loss, if there are such.",
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The project of the run.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The name of the run; else it is that of the file."),
    ] = None,
    base_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="What was trained, as a plan would name it.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="DATA", help="The rows, as a plan would name them.")
    ] = None,
    max_grad_norm: Annotated[
        float | None,
        typer.Option(
            metavar="NORM", help="What gradients were clipped to; grad_clip_factor follows from it."
        ),
    ] = None,
    submission_id: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="Import under this token; without one, the same content is the same run.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Have the service make a run of ``history``, and say what became of it."""
    left_out, loss = history.left_out(), history.call_loss(loss)
    if not history.steps and not history.validations:
        raise CommandError(
            f"{history.file} has no numbers of any step",
            Exit.REFUSED,
            hint="nothing was imported",
        )
    said = {
        "project": project,
        "name": name or history.file,
        "baseModel": base_model,
        "dataset": dataset,
        "maxGradNorm": max_grad_norm,
    }
    stated = {each: value for each, value in said.items() if value is not None}
    answer = client_of(context).post_lines(
        "/v1/runs:import", list(history.lines(stated)), submissionId=submission_id
    )
    answer |= {"file": history.file, "sha256": history.sha256, "loss": loss}
    answer |= {"beside": history.facts.get("beside")}
    answer |= {"leftOut": left_out, "replaced": history.replaced}
    if output is Output.TEXT:
        terminal.write(imported(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def folder_or_file(path: Path, *, is_folder: bool) -> Path:
    """The path, if it is what it has to be.

    Raises:
        CommandError: it is the other of the two, or there is none.
    """
    if not path.exists():
        raise CommandError(f"there is no {path}", Exit.REFUSED, hint="nothing was imported")
    if path.is_dir() != is_folder:
        found, wanted = ("a folder", "a file") if path.is_dir() else ("a file", "a folder")
        raise CommandError(
            f"{path} is {found}, and {wanted} is needed", Exit.REFUSED, hint="nothing was imported"
        )
    return path
