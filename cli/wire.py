"""Names for what comes over the wire, as JSON gives it."""

from typing import Any
from urllib.parse import quote

from cli.errors import CommandError, Exit

Json = dict[str, Any]
Event = dict[str, Any]  # position, runId, kind, at, and the facts of its kind
Number = float | str | None  # NaN and the infinities come as strings; None: not measured


def run_path(run_id: str, rest: str = "") -> str:
    """Where the service has a run; an id with odd characters stays one part of the path.

    Raises:
        CommandError: the id is empty.
    """
    if not run_id:
        raise CommandError("a run is named by its id, or by 4 digits of it", Exit.USAGE)
    return f"/v1/runs/{quote(run_id, safe='')}{rest}"


def snapshot_path(snapshot_id: str, rest: str = "") -> str:
    """Where the service has a snapshot.

    Raises:
        CommandError: the id is empty.
    """
    if not snapshot_id:
        raise CommandError("a snapshot is named by its id, or by 4 digits of it", Exit.USAGE)
    return f"/v1/snapshots/{quote(snapshot_id, safe='')}{rest}"


def dataset_path(which: str) -> str:
    """Where the service has a data set.

    Raises:
        CommandError: neither name nor identity is said.
    """
    if not which:
        raise CommandError(
            "a data set is named by its name, or by 8 digits of its identity", Exit.USAGE
        )
    return f"/v1/datasets/{quote(which, safe='')}"


def token_path(which: str, rest: str = "") -> str:
    """Where the service has a token.

    Raises:
        CommandError: neither name nor id is said.
    """
    if not which:
        raise CommandError("a token is named by its name or its id", Exit.USAGE)
    return f"/v1/tokens/{quote(which, safe='')}{rest}"
