"""Following a branch until its child is created, or refused."""

import time
from typing import TYPE_CHECKING

from cli import terminal
from cli.errors import CommandError, Exit, PassingError
from cli.follow import TRIES, pause_seconds
from cli.options import Output
from cli.render.branches import said
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client

DECIDED = ("created", "refused")
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.05, 1.0  # between two looks, more with each


def prepared(client: "Client", answer: Json, output: Output) -> Json:
    """Tell each state of a branch from what its submission answered to where it is decided.

    Raises:
        PassingError: the service was away for too long; the hint says how to look again.
        CommandError: Ctrl-C. Either way the branch is prepared all the same.
    """
    parent, token = answer["parentRunId"], answer["submissionId"]
    branch, pause = {"state": None}, FIRST_LOOK_SECONDS
    try:
        while branch["state"] not in DECIDED:
            told, branch = branch["state"], _look(client, parent, token)
            if branch["state"] != told:
                _tell(branch, output)
            elif branch["state"] not in DECIDED:
                time.sleep(pause)
                pause = min(2 * pause, LAST_LOOK_SECONDS)
    except KeyboardInterrupt:
        raise CommandError(
            "stopped following; the branch is prepared all the same",
            Exit.INTERRUPTED,
            hint=_again(parent, token),
        ) from None
    return branch


def _look(client: "Client", parent: str, token: str) -> Json:
    """What the service says of the branch, which may be away for a while."""
    tries = 0
    while True:
        try:
            answer = client.get(run_path(parent, "/branches"), submission=token)
        except PassingError as error:
            tries += 1
            if tries > TRIES:
                error.hint = _again(parent, token)
                raise
            time.sleep(pause_seconds(tries))
            client.relocate()
        else:
            branch: Json = answer["branches"][0]
            return branch


def _tell(branch: Json, output: Output) -> None:
    if output is Output.TEXT:
        terminal.write(said(branch))
    else:
        terminal.write_json(branch, compact=True)


def _again(parent: str, token: str) -> str:
    return f"`trainledger runs branches {parent} --submission {token}` says how far it is"
