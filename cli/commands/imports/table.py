"""``import csv``: a run whose numbers are in a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.importing import folder_or_file, importing

if TYPE_CHECKING:
    from cli.histories.history import History


@importing
def import_csv(
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
) -> "History":
    """Import the history of a run from a table, as trackio, W&B and spreadsheets export it.

    Every other column with numbers becomes a measured number under the column's own name.
    """
    from cli.histories import tables  # noqa: PLC0415 (read where it is needed)

    path = folder_or_file(file, is_folder=False)
    return tables.read(path, step_column=step_column, time_column=time_column)
