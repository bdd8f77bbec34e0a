"""What all commands that import a run have in common: their options, the request, the answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cli import terminal
from cli.context import client_of
from cli.errors import CommandError, Exit
from cli.options import Output
from cli.render.imports import imported
from cli.wire import Json

if TYPE_CHECKING:
    from cli.histories.history import History

Project = Annotated[str | None, typer.Option(metavar="TEXT", help="The project of the run.")]
Name = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The name of the run; else it is that of the file."),
]
BaseModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="What was trained, as a plan would name it.")
]
Dataset = Annotated[
    str | None, typer.Option(metavar="DATA", help="The rows, as a plan would name them.")
]
MaxGradNorm = Annotated[
    float | None,
    typer.Option(
        metavar="NORM", help="What gradients were clipped to; grad_clip_factor follows from it."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--submission-id",
        metavar="TOKEN",
        help="Import under this token; without one, the same content is the same run.",
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(
        "--loss",
        metavar="NAME",
        help="Which numbers are the training loss; else loss or train/loss, if there are such.",
    ),
]


class Stated(NamedTuple):
    """What the person says of the run."""

    project: str | None
    name: str | None
    base_model: str | None
    dataset: str | None
    max_grad_norm: float | None
    token: str | None

    def facts(self, file: str) -> Json:
        """The same in words of the service."""
        said = {
            "project": self.project,
            "name": self.name or file,
            "baseModel": self.base_model,
            "dataset": self.dataset,
            "maxGradNorm": self.max_grad_norm,
        }
        return {name: value for name, value in said.items() if value is not None}


def submit(
    context: typer.Context,
    history: "History",
    stated: Stated,
    output: Output,
    *,
    loss: str | None = None,
) -> None:
    """Have the service make a run of ``history``, and say what became of it."""
    left_out, loss = history.left_out(), history.call_loss(loss)
    if not history.steps and not history.validations:
        raise CommandError(
            f"{history.file} has no numbers of any step",
            Exit.REFUSED,
            hint="nothing was imported",
        )
    lines = list(history.lines(stated.facts(history.file)))
    parameters: dict[str, Any] = {"submissionId": stated.token}
    answer = client_of(context).post_lines("/v1/runs:import", lines, **parameters)
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
