"""The reference page of the command line, made from its own help: ``python -m cli.reference``."""

import sys
from collections.abc import Iterator

import typer

from cli.main import app

_WIDTH = 80

_HEAD = """\
# Command line

Made by `python -m cli.reference > docs/cli.md` from the help of each command; edit the help, not
this page. [Exit codes](exit-codes.md) are explained on a page of their own.

Every command writes its data to stdout and everything else to stderr. `-o json` is JSON that holds
only ASCII characters, with NaN and the infinities as the strings `"NaN"`, `"Infinity"` and
`"-Infinity"`; fields may be added, and none is ever renamed. `-o json-compact` is the same on one
line. In a pipe nothing is shortened and nothing is coloured; on a narrow terminal whole columns go
first and ids stay whole. A run is named by its id or by at least four digits of its beginning.
"""


def page() -> str:
    """The whole page."""
    root = typer.Context(
        typer.main.get_command(app), info_name="trainledger", terminal_width=_WIDTH
    )
    return "\n".join([_HEAD, *_sections(root)])


def _sections(context: typer.Context) -> Iterator[str]:
    """The help of a command and of all below it."""
    yield f"## {context.command_path}\n\n```text\n{context.get_help().rstrip()}\n```\n"
    for name, command in getattr(context.command, "commands", {}).items():
        yield from _sections(
            typer.Context(command, info_name=name, parent=context, terminal_width=_WIDTH)
        )


if __name__ == "__main__":
    sys.stdout.write(page())
