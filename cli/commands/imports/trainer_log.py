"""``import trainer-log``: a run that LLaMA-Factory recorded."""

from pathlib import Path
from typing import Annotated

import typer

from cli.importing import (
    BaseModel,
    Dataset,
    MaxGradNorm,
    Name,
    Project,
    Stated,
    Token,
    folder_or_file,
    submit,
)
from cli.options import Output, OutputOption


def import_trainer_log(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trainer_log.jsonl.", show_default=False)
    ],
    project: Project = None,
    name: Name = None,
    base_model: BaseModel = None,
    dataset: Dataset = None,
    max_grad_norm: MaxGradNorm = None,
    submission_id: Token = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Import the history of a run from the log that LLaMA-Factory writes."""
    from cli.histories import trainer  # noqa: PLC0415 (read where it is needed)

    history = trainer.read_log(folder_or_file(file, is_folder=False))
    stated = Stated(project, name, base_model, dataset, max_grad_norm, submission_id)
    submit(context, history, stated, output)
