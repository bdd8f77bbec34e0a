"""``backup``: the ledger as of one moment, in one file."""

from pathlib import Path
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.text import plain, size


def back_up(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.", show_default=False)],
    datasets: Annotated[
        bool,
        typer.Option(
            "--datasets/--no-datasets", help="Also the rows of the catalogue of data sets."
        ),
    ] = True,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write a copy of the ledger into a file while the server works on.

    Everything but the files of snapshots is in it or can be made of it; `restore` puts it back.
    """
    from cli import archive  # noqa: PLC0415 (tarfile is loaded where it is needed)

    wanted = None if datasets else "false"
    written = archive.keep(client_of(context), "/v1/backup", file, datasets=wanted)
    if output is Output.TEXT:
        without = "" if datasets else ", without the rows of data sets"
        terminal.write(f"wrote {plain(file)}, {size(written)}{without}\n")
    else:
        answer = {"file": str(file), "sizeBytes": written}
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
