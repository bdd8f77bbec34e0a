"""``runs sweep``: a branch for each combination of values, all of them or none."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.axes import Point, axes, points
from cli.branching import Branching
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.errors import CommandError
from cli.options import (
    Budget,
    Force,
    Output,
    OutputOption,
    Overrides,
    Restore,
    RestoreOption,
    RunId,
    Source,
    SubmissionId,
)
from cli.plans import absolute, read_overrides
from cli.render.sweep import sweep as rendered
from cli.render.text import counted
from cli.submission import token_of
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client

DRY_RUN = (
    "dry run: every point can be submitted; nothing was created or reserved, and the snapshot may "
    "be gone when they are"
)


def sweep(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    parent: RunId,
    snapshot: Source,
    steps: Budget,
    axis: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE,...",
            help="A field of the plan and the values that it takes. Repeatable: every combination "
            "is a point, the last axis fastest.",
            show_default=False,
        ),
    ],
    restore: RestoreOption = Restore.WEIGHTS,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every point; create and reserve nothing.")
    ] = False,
    submission_id: SubmissionId = None,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Branch once for each combination of values, from one snapshot of a run.

    Every point is checked before any is submitted. A name without a dot is a field of config; the
    child has the name of its point. Point 2 of the sweep TOKEN has the token TOKEN-2, so that the
    same call with --submission-id TOKEN reaches the same children, and makes those that are
    missing.
    """
    settings, token = settings_of(context), token_of(submission_id)
    base = read_overrides(overrides) if overrides is not None else {}
    every = points(axes(axis), base)
    asked = [
        Branching(
            parent, snapshot, steps, restore, absolute(each.overrides, Path.cwd()), each.label
        )
        for each in every
    ]
    client = client_of(context)
    _check(client, asked, token)
    made: list[Json] = []
    if not dry_run:
        question = (
            f"Start {counted(len(asked), 'child run')} from snapshot {snapshot} of run {parent}, "
            f"for {counted(steps, 'update')} each?"
        )
        confirm(question, settings, force=force)
        made = _submit(client, asked, token)
    told = [_told(each, *made[i : i + 1]) for i, each in enumerate(every)]
    if output is Output.TEXT:
        terminal.write(rendered(told, width=terminal.width()))
    else:
        answer = {"submissionId": token, "points": told}
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not settings.quiet:
        terminal.say(
            DRY_RUN if dry_run else f"the same call with {_with(token)} reaches them again"
        )


def _check(client: "Client", asked: list[Branching], token: str) -> None:
    """Have the service check every point.

    Raises:
        CommandError: it would refuse one; the sentence names the point.
    """
    for number, each in enumerate(asked, start=1):
        try:
            each.preview(client, _token(token, number))
        except CommandError as error:
            error.message = f"{_which(number, asked)}: {error.message}"
            raise


def _submit(client: "Client", asked: list[Branching], token: str) -> list[Json]:
    """Submit every point.

    Raises:
        CommandError: one was refused all the same, or its answer was lost; those before it are
            made, and the hint says how to go on.
    """
    again = f"those before it are made; the same call with {_with(token)} goes on"
    made = []
    for number, each in enumerate(asked, start=1):
        try:
            made.append(each.submit(client, _token(token, number), unseen=again))
        except CommandError as error:
            error.message = f"{_which(number, asked)}: {error.message}"
            error.hint = again
            raise
    return made


def _token(token: str, number: int) -> str:
    """The submission token of one point."""
    return f"{token}-{number}"


def _which(number: int, asked: list[Branching]) -> str:
    return f"point {number} of {len(asked)} ({asked[number - 1].config_name})"


def _with(token: str) -> str:
    return f"--submission-id {token}"


def _told(point: Point, made: Json | None = None) -> Json:
    """A point, and its branch once it is submitted."""
    said: Json = {"values": point.values, "overrides": point.overrides}
    if made is None:
        return said
    return said | {name: made[name] for name in ("submissionId", "childRunId", "state")}
