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


class PageMode(StrEnum):
    """Whether a text that is longer than the terminal goes through a pager."""

    AUTO = "auto"
    PAGED = "paged"
    BUFFERED = "buffered"


class Restore(StrEnum):
    """What a branch takes from its source."""

    WEIGHTS = "weights"
    TRAINING_STATE = "trainingState"


class Role(StrEnum):
    """What somebody may do with a token."""

    READER = "reader"
    SUBMITTER = "submitter"
    OPERATOR = "operator"


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run id, or at least 4 digits of one.", show_default=False
    ),
]
SnapshotId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="A snapshot id, or at least 4 digits of one.", show_default=False
    ),
]
Superseded = Annotated[
    bool, typer.Option("--superseded", help="Also what a restore took back, and by which.")
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", metavar="FORMAT")]
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
SubmissionId = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        help="Reach whatever an earlier call with this token created instead of a second run.",
    ),
]
Source = Annotated[
    str,
    typer.Option(
        "--snapshot",
        metavar="ID",
        help="The snapshot to begin from: its id, or an unambiguous beginning of it.",
        show_default=False,
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        "--steps", min=1, metavar="N", help="The updates that a child may make.", show_default=False
    ),
]
RestoreOption = Annotated[
    Restore,
    typer.Option(
        metavar="weights|trainingState",
        help="weights: begin anew with the adapter; trainingState: go on with optimizer, random "
        "numbers and place in the data as well.",
    ),
]
Overrides = Annotated[
    str | None,
    typer.Option(
        "-f",
        "--overrides",
        metavar="FILE",
        help="Fields of the plan that are to be different, JSON or YAML; - is stdin.",
    ),
]
AttemptNumber = Annotated[
    int | None,
    typer.Option(
        "--attempt", min=1, metavar="N", help="Of this attempt, not of the newest that wrote it."
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="POSITION|TIME",
        help="As it was then: at a position of the ledger, or at a time such as "
        "2026-11-29T18:00:00Z (UTC without a zone).",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Do not ask for confirmation.")]
