"""``import tensorboard``: a run whose curves are in event files."""

from pathlib import Path
from typing import Annotated

import typer

from cli.importing import (
    BaseModel,
    Dataset,
    LossName,
    MaxGradNorm,
    Name,
    Project,
    Stated,
    Token,
    folder_or_file,
    submit,
)
from cli.options import Output, OutputOption


def import_tensorboard(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The event files of one run.", show_default=False),
    ],
    project: Project = None,
    name: Name = None,
    base_model: BaseModel = None,
    dataset: Dataset = None,
    max_grad_norm: MaxGradNorm = None,
    loss: LossName = None,
    submission_id: Token = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Import the scalars of TensorBoard's event files; folders below the folder are other runs."""
    from cli.histories import event_files  # noqa: PLC0415 (read where it is needed)

    history = event_files.read(folder_or_file(folder, is_folder=True))
    stated = Stated(project, name, base_model, dataset, max_grad_norm, submission_id)
    submit(context, history, stated, output, loss=loss)
