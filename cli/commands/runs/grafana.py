"""``runs grafana``: a link to a run on the Grafana dashboard of a project."""

from typing import Annotated

import typer

from cli import terminal
from cli.context import client_of, settings_of
from cli.options import Output, OutputOption, RunId
from cli.render.text import moment
from cli.settings import platform_project
from cli.wire import run_path


def link_to_grafana(
    context: typer.Context,
    run_id: RunId,
    project: Annotated[
        str | None,
        typer.Option(
            "--platform-project",
            metavar="PROJECT",
            help="Whose Grafana is meant, else TRAINLEDGER_PLATFORM_PROJECT, else that of the "
            "context.",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Show this attempt, not what the dashboard shows by itself."
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print a link to a run in Grafana, from its start to its end, or to now until it has one.

    Whoever has the link can view the project's Grafana until it expires, so do not share it. The
    link alone goes to stdout; the platform project that is used and the expiry go to stderr.
    """
    settings = settings_of(context)
    name, where = platform_project(settings, project)
    answer = client_of(context).post(
        run_path(run_id, ":grafana"), {"platformProject": name, "attempt": attempt}
    )
    if output is Output.TEXT:
        terminal.write(answer["url"], may_page=False)
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)
    if not settings.quiet:
        terminal.say(f"the platform project is {name}, said by {where}")
    terminal.say(
        f"warning: whoever has this link can view the project's Grafana until "
        f"{moment(answer['expiresAt'])}; do not share it"
    )
