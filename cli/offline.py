"""What is done to the home of this account while no server works in it, by a process of its own."""

import json
import subprocess
from pathlib import Path

from cli import settings
from cli.errors import CommandError, Exit
from cli.settings import Settings
from cli.wire import Json


def call(chosen: Settings, command: str, path: Path) -> Json:
    """What the server's own code made of ``path`` in the home.

    Raises:
        CommandError: it refused, or a service elsewhere is meant.
    """
    if chosen.url is not None:
        raise CommandError(
            f"{command} works on a home of this machine, not on {chosen.url}",
            Exit.USAGE,
            hint="without --url, TRAINLEDGER_URL and a context it takes TRAINLEDGER_HOME",
        )
    done = subprocess.run(  # noqa: S603 (our own code, by our own interpreter)
        [*settings.offline_command(), command, str(path.absolute())],
        env=settings.server_environment(chosen.home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        lines = done.stderr.decode(errors="replace").strip().split("\n")
        raise CommandError(
            f"{command} ended with {done.returncode}: {lines[-1]}", Exit.REFUSED
        ) from None
    if "error" in answer:
        raise CommandError(answer["error"], Exit.REFUSED, hint=answer["hint"] or None)
    return dict(answer)
