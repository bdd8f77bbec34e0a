"""``import trainer-state``: a run that Hugging Face's Trainer recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.importing import folder_or_file, importing

if TYPE_CHECKING:
    from cli.histories.history import History


@importing
def import_trainer_state(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trainer_state.json.", show_default=False)
    ],
) -> "History":
    """Import the history of a run from the state that Hugging Face's Trainer saves.

    The state of an output folder has the whole history; that of a checkpoint ends there.
    """
    from cli.histories import trainer  # noqa: PLC0415 (read where it is needed)

    return trainer.read_state(folder_or_file(file, is_folder=False))
