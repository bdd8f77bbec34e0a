"""``config``: the services that have a name, and which of them is used."""

from typing import Annotated

import typer

from cli import contexts, settings, terminal
from cli.options import Output, OutputOption
from cli.render.config import listed
from cli.wire import Json

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of a context.", show_default=False)
]


def use_context(name: Name) -> None:
    """Use a context from now on; local is the server of this home."""
    contexts.use(settings.home(), name)
    terminal.write(f"context {name} is used from now on")


def list_contexts(output: OutputOption = Output.TEXT) -> None:
    """List the contexts; a star marks the one that is used."""
    answer = _said()
    if output is Output.TEXT:
        terminal.write(listed(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)


def set_context(
    name: Name,
    where: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Where the service is.")
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The file that has the token; an empty text: none."),
    ] = None,
    platform_project: Annotated[
        str | None,
        typer.Option(metavar="PROJECT", help="Whose Grafana is meant; an empty text: none."),
    ] = None,
) -> None:
    """Add a context, or change what is stated of one."""
    home = settings.home()
    context = contexts.put(
        home,
        name,
        url=settings.address(where),
        token_file=token_file,
        platform_project=platform_project,
    )
    terminal.write(f"context {name} is {context.url}, in {home / contexts.FILE}")


def _said() -> Json:
    """Every context, the one of the embedded server first."""
    home = settings.home()
    known = contexts.read(home)
    rows = [
        {
            "name": name,
            "url": context.url,
            "tokenFile": None if context.token_file is None else str(context.token_file),
            "platformProject": context.platform_project,
            "current": name == known.current,
        }
        for name, context in {contexts.LOCAL: contexts.Context(), **known.by_name}.items()
    ]
    return {"file": str(home / contexts.FILE), "current": known.current, "contexts": rows}
