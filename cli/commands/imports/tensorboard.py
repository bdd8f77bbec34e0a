"""``import tensorboard``: a run whose curves are in event files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.importing import folder_or_file, importing

if TYPE_CHECKING:
    from cli.histories.history import History


@importing
def import_tensorboard(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The event files of one run.", show_default=False),
    ],
) -> "History":
    """Import the scalars of TensorBoard's event files; folders below the folder are other runs."""
    from cli.histories import event_files  # noqa: PLC0415 (read where it is needed)

    return event_files.read(folder_or_file(folder, is_folder=True))
