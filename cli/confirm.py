"""Asking before something happens, where somebody is there to answer."""

from cli import terminal
from cli.errors import CommandError, Exit
from cli.settings import Settings


def confirm(question: str, settings: Settings, *, force: bool) -> None:
    """Go on if the person agrees, or if nobody can be asked.

    Raises:
        CommandError: the answer was no.
    """
    if force or not settings.prompts or not terminal.can_ask():
        return
    if not terminal.ask(question):
        raise CommandError("nothing was done", Exit.REFUSED, hint="--force skips the question")
