"""``audit replay``: the projections as they once were."""

from pathlib import Path
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption
from cli.render.text import count, plain


def replay(
    context: typer.Context,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="POSITION|TIME",
            help="A position, or a time such as 2026-11-29T18:00:00Z (UTC without a zone).",
            show_default=False,
        ),
    ],
    into: Annotated[
        Path,
        typer.Option(
            "--into", metavar="DIR", help="A folder that is new or empty.", show_default=False
        ),
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Build the projections as of then, from the first event on, into a folder.

    It has documents.db (SQLite: a document for each run) and warehouse.duckdb (what `sql` reads).
    """
    from cli import archive  # noqa: PLC0415 (tarfile is loaded where it is needed)

    manifest = archive.unpack(client_of(context), "/v1/audit/replay", into, to=to)
    if output is Output.TEXT:
        terminal.write(
            f"{plain(into)} is as of position {count(manifest['position'])}: documents.db and "
            "warehouse.duckdb\n"
        )
    else:
        terminal.write_json(manifest | {"into": str(into)}, compact=output is Output.JSON_COMPACT)
