"""``export``: everything that the ledger knows, in forms that need no trainledger."""

from pathlib import Path
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.exchange import exported


def export_ledger(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder that is new or empty.", show_default=False),
    ],
    artifacts: Annotated[
        bool,
        typer.Option("--artifacts", help="Also the files of the snapshots that are kept."),
    ] = False,
    datasets: Annotated[
        bool, typer.Option("--datasets", help="Also the rows of the catalogue of data sets.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write every event, and tables made of them, into a folder.

    It has events.jsonl (an event a line, with its digest), views/*.parquet (what `sql` reads), with
    --artifacts the snapshots, with --datasets their rows, and manifest.json. `import ledger` makes
    an equal ledger of it.
    """
    from cli import archive  # noqa: PLC0415 (tarfile is loaded where it is needed)

    manifest = archive.unpack(
        client_of(context),
        "/v1/export",
        folder,
        artifacts="true" if artifacts else None,
        datasets="true" if datasets else None,
    )
    answer = manifest | {"into": str(folder)}
    if output is Output.TEXT:
        terminal.write(exported(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
