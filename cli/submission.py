"""Submitting something once, however often the answer is lost."""

import os
import time
from typing import TYPE_CHECKING

from cli.errors import CommandError, Exit, PassingError
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client

TRIES = 6  # of one submission, over about six seconds


def token_of(stated: str | None) -> str:
    """The submission token of this call: the one that was stated, else one that nobody has used.

    Raises:
        CommandError: an empty one was stated, as by a variable that is not set.
    """
    if stated == "":
        raise CommandError("--submission-id is empty", Exit.USAGE)
    return os.urandom(16).hex() if stated is None else stated


def submit(client: "Client", path: str, body: Json, *, unseen: str) -> Json:
    """The answer to a submission; asked again with the same token when it was lost on the way.

    Args:
        client: who asks.
        path: where to submit.
        body: what to submit, with its ``submissionId``.
        unseen: the hint when the answer was lost every time; it has the token.

    Raises:
        CommandError: refused, or lost every time.
    """
    for tries in range(TRIES):
        try:
            return client.post(path, body)
        except PassingError as error:
            if tries == 0 and not error.sent:
                raise
            lost = error
        time.sleep(0.2 * 2**tries)
        client.relocate()
    lost.hint = unseen
    raise lost
