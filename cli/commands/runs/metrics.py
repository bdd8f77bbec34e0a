"""``runs metrics``: what the engine measured, step by step."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import terminal
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit
from cli.near import nearest
from cli.options import AsOf, RunId, Superseded
from cli.render.metrics import FIELDS, bucketed, metrics, unmeasured
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client


class Format(StrEnum):
    """How metrics are written."""

    TEXT = "text"
    JSON = "json"
    JSON_COMPACT = "json-compact"
    CSV = "csv"
    PARQUET = "parquet"


_FILES = {Format.CSV, Format.PARQUET}


@dataclass(frozen=True)
class Asked:
    """What is asked for of a series."""

    run_id: str
    fields: list[str]
    first: int | None
    last: int | None
    limit: int | None
    superseded: bool
    attempt: int | None
    as_of: str | None

    def parameters(self) -> Json:
        """The same in the words of the service."""
        return {
            "fields": self.fields or None,
            "from": self.first,
            "to": self.last,
            "limit": self.limit,
            "superseded": "true" if self.superseded else None,
            "attempt": self.attempt,
            "asOf": self.as_of,
        }

    def check_current(self, option: str) -> None:
        """Refuse what is only of the rows themselves.

        Raises:
            CommandError: it was stated beside ``option``, which reads the current series.
        """
        stated = {
            "--limit": self.limit is not None,
            "--superseded": self.superseded,
            "--attempt": self.attempt is not None,
        }
        for name, is_stated in stated.items():
            if is_stated:
                raise CommandError(f"{option} is of the current series: leave {name}", Exit.USAGE)


def show_metrics(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    run_id: RunId,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Only these fields; terms:NAME is a reward term. Repeatable."
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="STEP", min=0, help="From this step on.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="STEP", min=0, help="Up to this step.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last N steps.")
    ] = None,
    superseded: Superseded = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="All that this attempt reported, and nothing else."),
    ] = None,
    as_of: AsOf = None,
    buckets: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="N rows at most, each of as many steps: their mean, least and greatest value.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="[FIELD]",
            help="Draw a field over the steps: this, else the first of --fields, else the loss.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write -o csv or -o parquet to this file, not to stdout."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", metavar="FORMAT")] = Format.TEXT,
) -> None:
    """Show what the engine measured at each step."""
    asked = Asked(run_id, fields or [], first, last, limit, superseded, attempt, as_of)
    if file is not None and output not in _FILES:
        raise CommandError("--file needs -o csv or -o parquet", Exit.USAGE)
    if plot is not None:
        if buckets is not None:
            raise CommandError("--plot has as many buckets as fit: leave --buckets", Exit.USAGE)
        _plot(client_of(context), asked, plot or _first(asked), output)
    elif buckets is not None:
        _show_buckets(client_of(context), asked, buckets, output)
    elif output in _FILES:
        _save(client_of(context), asked, output, file)
    else:
        rows = _show(client_of(context), asked, output)
        if rows and not settings_of(context).quiet:
            _say_unmeasured(client_of(context), asked, rows)


def _show(client: "Client", asked: Asked, output: Format) -> list[Json]:
    """Write the series; its rows."""
    answer = _pages(client, asked)
    if output is Format.TEXT:
        terminal.write(metrics(answer, fields=asked.fields, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Format.JSON_COMPACT)
    return [*answer["steps"], *(answer.get("validations") or [])]


def _say_unmeasured(client: "Client", asked: Asked, rows: list[Json]) -> None:
    """Name the fields that no row has, and what may have been meant."""
    missing = unmeasured(asked.fields, rows)
    if not missing:
        return
    newest = client.get(run_path(asked.run_id)).get("latest") or {}
    for name in missing:
        near = nearest(name, newest.get("measured") or {})
        question = f"; did you mean {near}?" if near else ""
        terminal.say(f"hint: no row here has {name}{question}")


def _pages(client: "Client", asked: Asked) -> Json:
    """The answer of as many pages as it takes."""
    path, parameters = run_path(asked.run_id, "/metrics"), asked.parameters()
    answer = page = client.get(path, **parameters)
    if "asOf" in answer:  # so that all pages are of one moment
        parameters |= {"asOf": answer["asOf"]["position"]}
    while page.get("next") is not None:
        page = client.get(path, **parameters | {"from": page["next"], "limit": None})
        for name in ("steps", "validations"):
            answer[name] += page[name]
        answer["next"] = page.get("next")
    return answer


def _show_buckets(client: "Client", asked: Asked, buckets: int, output: Format) -> None:
    asked.check_current("--buckets")
    if output in _FILES:
        raise CommandError(f"--buckets is text or JSON: leave -o {output}", Exit.USAGE)
    fields = asked.fields or ([FIELDS[0]] if output is Format.TEXT else [])
    answer = _reduced(client, asked, buckets, fields)
    if output is Format.TEXT:
        terminal.write(bucketed(answer, fields=fields, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Format.JSON_COMPACT)


def _reduced(client: "Client", asked: Asked, buckets: int, fields: list[str]) -> Json:
    parameters: dict[str, Any] = {"from": asked.first, "to": asked.last, "asOf": asked.as_of}
    path = run_path(asked.run_id, "/metrics/buckets")
    return client.get(path, fields=fields or None, buckets=buckets, **parameters)


def _first(asked: Asked) -> str:
    """The first field that is asked for."""
    named = (name.strip() for text in asked.fields for name in text.split(","))
    return next((name for name in named if name), FIELDS[0])


def _plot(client: "Client", asked: Asked, field: str, output: Format) -> None:
    asked.check_current("--plot")
    if output is not Format.TEXT:
        raise CommandError("--plot draws a text: leave -o", Exit.USAGE)
    from cli.render.chart import DOTS, chart, columns  # noqa: PLC0415 (only this needs plotille)

    width = terminal.width()
    answer = _reduced(client, asked, DOTS * columns(width), [field])
    buckets = [each for each in answer["buckets"] if field in each["measured"]]
    terminal.write(chart(buckets, field, width=width, ascii_only=not terminal.takes_unicode()))


def _save(client: "Client", asked: Asked, output: Format, file: Path | None) -> None:
    if file is None and output is Format.PARQUET and terminal.is_live():
        raise CommandError(
            "a Parquet file is nothing for a terminal", Exit.USAGE, hint="--file FILE, or > FILE"
        )
    path = run_path(asked.run_id, "/metrics/file")
    parameters = asked.parameters() | {"format": output.value}
    with client.download(path, silence=None, **parameters) as (_, parts):
        if file is None:
            terminal.write_bytes(parts)
        else:
            terminal.save(parts, file)
