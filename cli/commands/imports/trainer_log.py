"""``import trainer-log``: a run that LLaMA-Factory recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.importing import folder_or_file, importing

if TYPE_CHECKING:
    from cli.histories.history import History


@importing
def import_trainer_log(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trainer_log.jsonl.", show_default=False)
    ],
) -> "History":
    """Import the history of a run from the log that LLaMA-Factory writes."""
    from cli.histories import trainer  # noqa: PLC0415 (read where it is needed)

    return trainer.read_log(folder_or_file(file, is_folder=False))
