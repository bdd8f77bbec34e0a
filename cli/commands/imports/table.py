"""``import csv``: a run whose numbers are in a table."""

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


def import_csv(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A table whose first line names the columns.", show_default=False
        ),
    ],
    step_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The column with steps; else one named step or so."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column with dates or seconds since 1970; else one named timestamp or so.",
        ),
    ] = None,
    loss: LossName = None,
    project: Project = None,
    name: Name = None,
    base_model: BaseModel = None,
    dataset: Dataset = None,
    max_grad_norm: MaxGradNorm = None,
    submission_id: Token = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Import the history of a run from a table, as trackio, W&B and spreadsheets export it.

    Every other column with numbers becomes a measured number under the column's own name.
    """
    from cli.histories import tables  # noqa: PLC0415 (read where it is needed)

    path = folder_or_file(file, is_folder=False)
    history = tables.read(path, step_column=step_column, time_column=time_column)
    stated = Stated(project, name, base_model, dataset, max_grad_norm, submission_id)
    submit(context, history, stated, output, loss=loss)
