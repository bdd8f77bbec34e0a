"""Arguments and options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How a command writes its data."""

    TEXT = "text"
    JSON = "json"
    JSON_COMPACT = "json-compact"


class DetailOutput(StrEnum):
    """The same for the run detail, which has a wide form as well."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    JSON_COMPACT = "json-compact"


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run id, or at least 4 digits of one.", show_default=False
    ),
]
OutputOption = Annotated[
    Output,
    typer.Option("-o", "--output", metavar="FORMAT", help="text, json or json-compact."),
]
WaitLimit = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="Wait so long at most (30s, 10m, 2h); the run goes on.",
    ),
]
ExitStatus = Annotated[
    bool, typer.Option("--exit-status", help="Exit 1 if the run ends FAILED or CANCELLED.")
]
Force = Annotated[bool, typer.Option("--force", help="Do not ask for confirmation.")]
