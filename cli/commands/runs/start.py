"""``runs start``: submit a plan."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import terminal
from cli.confirm import confirm
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit
from cli.options import ExitStatus, Force, Output, OutputOption, SubmissionId, WaitLimit
from cli.plans import read
from cli.settings import Settings, seconds
from cli.submission import submit, token_of
from cli.waiting import Wait, wait
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client


def start(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    file: Annotated[
        str,
        typer.Option(
            "-f",
            "--file",
            metavar="PLAN",
            help="The plan, JSON or YAML; - is stdin.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the resolved plan and create nothing.")
    ] = False,
    show_resolved: Annotated[
        bool, typer.Option("--show-resolved", help="Show the resolved plan before starting.")
    ] = False,
    follow: Annotated[bool, typer.Option("--wait", help="Follow the run until it ends.")] = False,
    exit_status: ExitStatus = False,
    force: Force = False,
    submission_id: SubmissionId = None,
    timeout: WaitLimit = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Start a run from a plan.

    Paths in the plan that begin with ./ or ../ are relative to the plan's own folder.
    """
    if not follow and (exit_status or timeout is not None):
        alone = "--exit-status" if exit_status else "--timeout"
        raise CommandError(f"{alone} needs --wait", Exit.USAGE)
    limit = None if timeout is None else seconds(timeout, "--timeout")
    settings, token = settings_of(context), token_of(submission_id)
    plan = read(file)
    client = client_of(context)
    if dry_run:
        _show_dry_run(client, plan, output, settings)
        return
    if show_resolved:
        _show_resolved(client, plan, output)
    question = f"Start a run of {plan.get('baseModel')} on {plan.get('dataset')}?"
    confirm(question, settings, force=force)

    unseen = f"the run may exist; the same call with --submission-id {token} reaches it"
    answer = submit(client, "/v1/runs", {"plan": plan, "submissionId": token}, unseen=unseen)

    _tell(answer, settings, output, followed=follow)
    if follow:
        asked = Wait(answer["runId"], output, limit, exit_status=exit_status)
        wait(client, settings, asked, record=answer)


def _show_dry_run(client: "Client", plan: Json, output: Output, settings: Settings) -> None:
    answer = client.post("/v1/runs", {"plan": plan}, dryRun="true")
    if output is Output.TEXT:
        terminal.write(_resolved(answer))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not settings.quiet:
        terminal.say("dry run: nothing was created")


def _show_resolved(client: "Client", plan: Json, output: Output) -> None:
    """The resolved plan, on stderr where stdout is JSON."""
    text = _resolved(client.post("/v1/runs", {"plan": plan}, dryRun="true"))
    if output is Output.TEXT:
        terminal.write(text)
    else:
        terminal.say(text.rstrip("\n"))


def _resolved(answer: Json) -> str:
    from cli.render.plan import resolved_plan  # noqa: PLC0415 (only here yaml is needed)

    return resolved_plan(answer["resolved"], answer["stated"])


def _tell(answer: Json, settings: Settings, output: Output, *, followed: bool) -> None:
    run_id = answer["runId"]
    if output is Output.TEXT:
        word = "submitted" if answer.get("created", True) else "was submitted before"
        terminal.write(f"run {run_id} {word}")
    elif not followed:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not followed and not settings.quiet:
        terminal.say(f"follow it with `trainledger runs wait {run_id}`")
