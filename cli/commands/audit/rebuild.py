"""``audit rebuild``: projections made anew where they are not what the ledger says."""

import json
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit, PassingError
from cli.options import Output, OutputOption
from cli.render.text import count, duration, plain
from cli.wire import Json

SAY_SECONDS = 2.0  # between two lines about how far it has come


class Projection(StrEnum):
    """What is made of the events."""

    DOCUMENTS = "documents"
    WAREHOUSE = "warehouse"


def rebuild(
    context: typer.Context,
    projection: Annotated[
        Projection | None,
        typer.Option(help="Only this one; else both.", show_default=False),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make projections anew from the first event on, while the server goes on.

    What everybody reads is the old one until the new one takes its place. Ctrl-C ends it.
    """
    client, is_quiet = client_of(context), settings_of(context).quiet
    lines = client.lines(
        "/v1/audit/rebuild", body={}, silence=None, projection=projection and projection.value
    )
    answer = _followed(map(json.loads, lines), is_quiet=is_quiet)
    if output is Output.TEXT:
        names = " and ".join(plain(each) for each in answer["rebuilt"])
        terminal.write(
            f"made {names} anew, up to position {count(answer['position'])}, in "
            f"{duration(answer['seconds'])}\n"
        )
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def _followed(told: Iterator[Json], *, is_quiet: bool) -> Json:
    """The last line, once it is there; those before it now and then.

    Raises:
        CommandError: the service could not finish.
        PassingError: the answer broke off.
    """
    newest: dict[str, Json] = {}
    due = time.monotonic() + SAY_SECONDS
    for each in told:
        if "rebuilt" in each:
            return each
        if "projection" not in each:
            raise CommandError(str(each.get("detail")), Exit.REFUSED, hint=each.get("hint"))
        newest[each["projection"]] = each
        if not is_quiet and time.monotonic() >= due:
            terminal.say("  ".join(_said(one) for one in newest.values()))
            due = time.monotonic() + SAY_SECONDS
    raise PassingError("the answer broke off; trainledger audit verify says what is there now")


def _said(each: Json) -> str:
    share = each["position"] / each["upto"] if each["upto"] else 1.0
    return f"{each['projection']} {share:.0%}"
