"""``runs branch``: a child run from a snapshot of another."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.branching import Branching
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit
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
from cli.plans import read_overrides
from cli.preparation import prepared
from cli.render.branches import previewed, said
from cli.render.text import counted
from cli.settings import Settings
from cli.submission import token_of
from cli.waiting import Wait, wait
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client


def branch(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    parent: RunId,
    snapshot: Source,
    steps: Budget,
    restore: RestoreOption = Restore.WEIGHTS,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the resolved child; create and reserve nothing."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--wait", help="Follow the preparation, then the child to its end.")
    ] = False,
    exit_status: Annotated[
        bool,
        typer.Option(
            "--exit-status", help="Exit 1 if the preparation or the child fails; needs --wait."
        ),
    ] = False,
    config_name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The name of the child.")
    ] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The description of the child.")
    ] = None,
    submission_id: SubmissionId = None,
    force: Force = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Branch from a snapshot of a run: a child with its own updates, from 1 to N.

    The parent is unchanged and may go on. What the overrides leave out is as in the parent; they
    cannot set epochs or maxSteps, and with --restore trainingState only config.learningRate.
    Returns as soon as the request is durable. Each call makes a child of its own, unless it has
    the token of an earlier one.
    """
    if exit_status and not follow:
        raise CommandError("--exit-status needs --wait", Exit.USAGE)
    settings, token = settings_of(context), token_of(submission_id)
    changes = read_overrides(overrides) if overrides is not None else {}
    asked = Branching(parent, snapshot, steps, restore, changes, config_name, description)
    client = client_of(context)
    if dry_run:
        _show(asked.preview(client, token), output, settings)
        return
    question = f"Branch from snapshot {snapshot} of run {parent}, for {counted(steps, 'update')}?"
    confirm(question, settings, force=force)

    again = f"the branch may exist; the same call with --submission-id {token} reaches it"
    answer = asked.submit(client, token, unseen=again)

    if follow:
        _follow(client, settings, answer, output, exit_status=exit_status)
    else:
        _tell(answer, settings, output)


def _show(preview: Json, output: Output, settings: Settings) -> None:
    from cli.render.plan import resolved_plan  # noqa: PLC0415 (only here yaml is needed)

    if output is Output.TEXT:
        terminal.write(previewed(preview) + resolved_plan(preview["resolved"], preview["stated"]))
    else:
        terminal.write_json(preview, compact=output is Output.JSON_COMPACT)
    if not settings.quiet:
        terminal.say(f"dry run: {preview['note']}")


def _tell(answer: Json, settings: Settings, output: Output) -> None:
    if output is Output.TEXT:
        terminal.write(said(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if settings.quiet or answer["state"] == "refused":
        return
    parent, token = answer["parentRunId"], answer["submissionId"]
    if answer["state"] != "created":
        terminal.say(
            f"`trainledger runs branches {parent} --submission {token}` says when it is created"
        )
    terminal.say(f"follow it with `trainledger runs wait {answer['childRunId']}`")


def _follow(
    client: "Client", settings: Settings, answer: Json, output: Output, *, exit_status: bool
) -> None:
    """Follow the preparation, then the child.

    Raises:
        CommandError: with --exit-status, one of them failed; Ctrl-C.
    """
    made = prepared(client, answer, output)
    if made["state"] == "created":
        record = client.get(run_path(made["childRunId"]))
        asked = Wait(record["runId"], output, limit_seconds=None, exit_status=exit_status)
        wait(client, settings, asked, record=record)
    elif exit_status:
        refusal = made["refusal"]
        raise CommandError(refusal["reason"], Exit.RUN_FAILED, hint=refusal["advice"])
