"""Projections made anew on a server that keeps serving, for whoever was told that one differs."""

import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from api.problems import INTERNAL, ProblemError
from ledger import audit
from ledger.errors import RefusedError
from ledger.ledger import Ledger
from projections.errors import ProjectionError
from projections.rebuild import Live, rebuild
from projections.replay import FILES
from projections.warehouse.publish import Publisher

PUBLISH_SECONDS = 60.0  # so long one waits for a copy of the new warehouse
AS_THEY_WERE = "trainledger server logs says more; projections that were not ready are as they were"

Answer = dict[str, Any]


class Parts(NamedTuple):
    """What is made anew, and of what."""

    ledger: Ledger
    file: Path | None  # that its events are in
    live: Live
    publisher: Publisher


class Rebuilder:
    """Makes projections anew in a folder of the home, one request at a time."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._parts = parts
        self._folder = folder
        self._working = threading.Lock()

    def rebuild(self, projection: str | None) -> Generator[Answer, None, None]:
        """How far it has come, again and again, and at last what was made anew.

        Whoever asks no further ends it; what is not in its place by then stays as it was.

        Raises:
            RefusedError: the ledger is not what was written, or somebody else does this already.
            CorruptError: an event cannot be read.
            ProblemError: a projection could not be built.
        """
        if not self._working.acquire(blocking=False):
            raise RefusedError("projections are being made anew already", "wait until that is done")
        try:
            self._check()
            yield from self._rebuilt(tuple(FILES) if projection is None else (projection,))
        except ProjectionError as error:
            raise ProblemError(INTERNAL, str(error), AS_THEY_WERE) from error
        finally:
            self._working.release()

    def _check(self) -> None:
        """Refuse a ledger whose projections would be as untrue as it is."""
        faults = audit.verify(self._parts.ledger).faults
        if faults:
            are, them = ("is", "it") if len(faults) == 1 else ("are", "them")
            raise RefusedError(
                f"{len(faults)} of the stored streams or seals {are} not what was written, and "
                f"projections made of {them} would not be true either",
                f"trainledger audit verify names {them}",
            )

    def _rebuilt(self, names: tuple[str, ...]) -> Generator[Answer, None, None]:
        parts, began = self._parts, time.monotonic()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with TemporaryDirectory(dir=self._folder) as folder:
            upto = parts.ledger.position()
            told = rebuild(parts.live, parts.ledger, Path(folder), names, ledger=parts.file)
            with closing(told):
                for each in told:
                    yield each._asdict() | {"upto": max(upto, each.position)}
        if "warehouse" in names:  # analysts are to see the new one as soon as everybody else
            parts.publisher.wait_for(parts.live.warehouse.position(), PUBLISH_SECONDS)
        yield {
            "rebuilt": list(names),
            "position": min(getattr(parts.live, name).position() for name in names),
            "seconds": round(time.monotonic() - began, 3),
        }
