"""``sql``: questions to the published copy of the warehouse, or a copy of one's own."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import settings, terminal
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit
from cli.render.sql import footing, table_of
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client

PATH = "/v1/sql"
TABLE_ROWS = 1_000  # of a table, unless --limit says otherwise


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    JSON_COMPACT = "json-compact"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_MEDIA_TYPES = {
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.ARROW: "application/vnd.apache.arrow.stream",
}


def sql(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help='One SELECT, for example "FROM runs"; - is stdin.',
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        bool, typer.Option("--path", help="Print where the published copy is, for other clients.")
    ] = False,
    follow: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep a DuckDB file of your own at the end of the ledger in this home, until "
            "Ctrl-C; no server is asked.",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Have everything published that is recorded by now.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help=f"At most N rows; {TABLE_ROWS:,} by default in a table."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write -o csv, parquet or arrow to this file, not to stdout."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", metavar="FORMAT")] = Format.TABLE,
) -> None:
    """Ask in SQL about all runs; docs/sql.md has the views, docs/queries.md examples.

    A query reads a copy that is published every few seconds, and at once when a run has ended.
    """
    if sum((query is not None, path, follow is not None)) != 1:
        raise CommandError("state a QUERY, --path or --follow FILE", Exit.USAGE)
    if file is not None and output not in _MEDIA_TYPES:
        raise CommandError("--file needs -o csv, -o parquet or -o arrow", Exit.USAGE)
    if follow is not None:
        _follow(context, follow)
    elif path:
        _show_path(client_of(context), fresh=fresh)
    else:
        asked = {"query": _text(query or ""), "limit": limit, "fresh": fresh}
        _show(context, asked, output, file)


def _text(query: str) -> str:
    return sys.stdin.read() if query == "-" else query


def _show(context: typer.Context, asked: Json, output: Format, file: Path | None) -> None:
    client = client_of(context)
    if output in _MEDIA_TYPES:
        _save(client, asked, output, file)
    elif output is Format.TABLE:
        limit = TABLE_ROWS if asked["limit"] is None else asked["limit"]
        answer = client.post_and_wait(PATH, asked | {"limit": limit})
        terminal.write(table_of(answer, width=terminal.width()))
        if not settings_of(context).quiet:
            terminal.say(footing(answer))
    else:
        answer = client.post_and_wait(PATH, asked)
        terminal.write_json(answer, compact=output is Format.JSON_COMPACT)


def _save(client: "Client", asked: Json, output: Format, file: Path | None) -> None:
    if file is None and output is not Format.CSV and terminal.is_live():
        raise CommandError(
            f"-o {output} is nothing for a terminal", Exit.USAGE, hint="--file FILE, or > FILE"
        )
    accept = _MEDIA_TYPES[output]
    with client.download(PATH, body=asked, accept=accept, silence=None) as (_, parts):
        if file is None:
            terminal.write_bytes(parts)
        else:
            terminal.save(parts, file)


def _show_path(client: "Client", *, fresh: bool) -> None:
    if not client.is_here:
        raise CommandError(
            f"the copy is on the machine of {client.url}",
            Exit.REFUSED,
            hint='ask there, or here with trainledger sql "SELECT …" -o parquet',
        )
    answer = client.post_and_wait(f"{PATH}:publish") if fresh else client.get(PATH)
    terminal.write(answer["path"])


def _follow(context: typer.Context, file: Path) -> None:
    """Become the process that keeps the file: Ctrl-C and the exit code are its own.

    Raises:
        CommandError: a service elsewhere is meant.
    """
    chosen = settings_of(context)
    if chosen.url is not None:
        raise CommandError(
            f"--follow reads a ledger of this machine, not that of {chosen.url}",
            Exit.USAGE,
            hint="without --url, TRAINLEDGER_URL and a context it takes TRAINLEDGER_HOME",
        )
    command = [*settings.follow_command(), str(chosen.home), str(file.absolute())]
    terminal.finish()
    os.execve(command[0], command, settings.server_environment(chosen.home))  # noqa: S606 (ours)
