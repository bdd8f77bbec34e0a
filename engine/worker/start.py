"""Start: the snapshot that an attempt begins from, and what it takes from it."""

from pathlib import Path
from typing import Literal, NamedTuple

from engine.client import branch_kind, origin_folder, restore_folder


class Start(NamedTuple):
    """A snapshot's files, for this attempt alone.

    resume: they are of this very run, which goes on. weights, trainingState: they are of another
    run, and this attempt begins a branch with so much of them.
    """

    folder: Path
    takes: Literal["resume", "weights", "trainingState"]


def start() -> Start | None:
    """What this attempt begins from; None: from the start of its run.

    Raises:
        RuntimeError: a branch was told of no snapshot. It would train what nobody asked for.
    """
    saved, kind, origin = restore_folder(), branch_kind(), origin_folder()
    if saved is not None:
        return Start(saved, "resume")
    if kind is None and origin is None:
        return None
    if kind is None or origin is None:
        raise RuntimeError(f"a branch needs kind and origin; these are {kind} and {origin}")
    return Start(origin, kind)
