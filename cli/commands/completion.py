"""``completion``: what a shell needs to complete commands and options."""

from enum import StrEnum
from typing import Annotated

import typer

from cli import terminal
from cli.settings import COMPLETE


class Shell(StrEnum):
    """A shell that can be told how."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[
        Shell,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False),
    ],
) -> None:
    r"""Print the script that has a shell complete commands and options.

    \b
    bash: eval "$(trainledger completion bash)"
    zsh:  eval "$(trainledger completion zsh)"
    fish: trainledger completion fish | source
    """
    from typer.completion import (  # type: ignore[attr-defined]  # noqa: PLC0415 (only here)
        get_completion_script,
    )

    script = get_completion_script(
        prog_name="trainledger", complete_var=COMPLETE, shell=shell.value
    )
    terminal.write(script)


def complete(app: typer.Typer, instruction: str) -> int:
    """Say what may follow a line that a shell is about to complete; its script asks for that."""
    from typer.completion import (  # type: ignore[attr-defined]  # noqa: PLC0415 (only here)
        completion_init,
        shell_complete,
    )

    completion_init()
    command = typer.main.get_command(app)
    return int(shell_complete(command, {}, "trainledger", COMPLETE, instruction))
