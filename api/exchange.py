"""What leaves a server: exports, backups, and projections as of a position, each as one archive.

Everything that may fail is done before the first byte is sent, but for snapshots, which are too
large to be copied all at once. The manifest comes last: an archive without one broke off.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from api.archive import Member, pack
from api.home import LEDGER
from api.problems import NOT_READY, ProblemError
from api.rows import Rows
from api.wire import dump
from engine.dispatch.artifacts import ArtifactStore, DamagedError
from ledger import exchange, moments
from ledger.events import Artifact
from ledger.ledger import Ledger
from ledger.store.sqlite import Database
from projections import replay
from projections.documents import Documents
from projections.warehouse import Warehouse
from projections.warehouse.parquet import write_views

FORMAT = 1  # of exports and backups
MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
VIEWS = "views"
ARTIFACTS = "artifacts"


class Parts(NamedTuple):
    """What is packed."""

    ledger: Ledger
    database: Database
    documents: Documents
    warehouse: Warehouse
    artifacts: ArtifactStore
    rows: Rows
    catch_up: Callable[[str, int], bool]  # waits for a projection; whether it got there


class Exchange:
    """Packs archives in a folder that is emptied when a server starts."""

    def __init__(self, parts: Parts, folder: Path, clock: Callable[[], datetime]) -> None:
        self._parts = parts
        self._folder = folder
        self._clock = clock

    def clear(self) -> None:
        """Delete what a server left that died."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def export(self, *, artifacts: bool, datasets: bool) -> Generator[bytes, None, None]:
        """Every event as a line, the views as Parquet; snapshots and rows if they are wanted.

        Raises:
            ProblemError: the views are not there yet.
        """
        parts = self._parts
        if not parts.catch_up("warehouse", parts.ledger.position()):
            raise ProblemError(NOT_READY, "the newest events are not in the warehouse yet")
        work = self._work()
        views = Path(work.name) / VIEWS
        views.mkdir()
        position, paths = write_views(parts.warehouse, views)
        events = Path(work.name) / EVENTS
        with events.open("wb") as file:
            tale = exchange.write(parts.ledger.read_stored, position, file.write)
        told: list[dict[str, Any]] = []
        sent: list[dict[str, Any]] = []
        views_of = {"views": [path.stem for path in paths], "snapshots": told, "datasets": sent}
        members = chain(
            [Member.of(EVENTS, events)],
            (Member.of(f"{VIEWS}/{path.name}", path) for path in paths),
            self._snapshots(Path(work.name), told) if artifacts else (),
            parts.rows.members(sent) if datasets else (),
        )
        return self._packed(work, "export", members, tale._asdict() | views_of)

    def backup(self, *, datasets: bool) -> Generator[bytes, None, None]:
        """The event database as of one commit, and the rows of data sets if they are wanted.

        The ledger goes on meanwhile.
        """
        work = self._work()
        copy = Path(work.name) / LEDGER
        self._parts.database.copy_to(copy)
        facts = _described(copy)
        sent: list[dict[str, Any]] = []
        rows = self._parts.rows.members(sent) if datasets else ()
        members = chain([Member.of(LEDGER, copy)], rows)
        return self._packed(work, "backup", members, facts | {"datasets": sent})

    def replay(self, to: str) -> Generator[bytes, None, None]:
        """Both projections as of a position or a moment.

        Raises:
            LedgerError: ``to`` is neither, or is still to come.
        """
        position = moments.past(self._parts.ledger, to, self._clock()).position
        work = self._work()
        parts = self._parts
        paths = replay.build(parts.ledger, Path(work.name), position, ledger=parts.database.path)
        members = [Member.of(path.name, path) for path in paths]
        return self._packed(work, "replay", members, {"position": position})

    # -- inside

    def _work(self) -> "TemporaryDirectory[str]":
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return TemporaryDirectory(dir=self._folder)

    def _packed(
        self,
        work: "TemporaryDirectory[str]",
        kind: str,
        members: Iterable[Member],
        facts: dict[str, Any],
    ) -> Generator[bytes, None, None]:
        """The archive of these files and a manifest, which may tell what was found meanwhile."""
        made_at = self._clock()
        head = {
            "kind": kind,
            "format": FORMAT,
            "version": version("trainledger"),
            "madeAt": made_at,
        }

        def every() -> Iterator[Member]:
            yield from members
            yield Member.text(MANIFEST, dump(head | facts) + b"\n")

        with work:
            yield from pack(every(), changed=int(made_at.timestamp()))

    def _snapshots(self, work: Path, told: list[dict[str, Any]]) -> Iterator[Member]:
        """The files of every snapshot of which something is kept; ``told`` says which are there."""
        documents = self._parts.documents
        for run_id in documents.runs():
            for snapshot in documents.snapshots(run_id):
                if snapshot["artifacts"]:
                    yield from self._snapshot(snapshot, work / "snapshot", told)

    def _snapshot(
        self, snapshot: dict[str, Any], copy: Path, told: list[dict[str, Any]]
    ) -> Iterator[Member]:
        """The files of one snapshot, its manifest last; a damaged one is left out."""
        run_id, snapshot_id = snapshot["runId"], snapshot["snapshotId"]
        kept: list[Artifact] = snapshot["artifacts"]
        said = {"runId": run_id, "snapshotId": snapshot_id}
        try:
            manifest = self._parts.artifacts.fetch(run_id, snapshot_id, copy, kept)
        except DamagedError as error:
            told.append(said | {"artifacts": [], "leftOut": str(error)})
            return
        place = f"{ARTIFACTS}/{run_id}/{snapshot_id}"
        for name in manifest.files_of(kept):
            yield Member.of(f"{place}/files/{name}", copy / name)
        yield Member.text(f"{place}/{MANIFEST}", manifest.encoded())
        told.append(said | {"artifacts": kept})
        shutil.rmtree(copy)


def _described(ledger: Path) -> dict[str, Any]:
    """What tells a whole copy of a ledger from another."""
    with closing(sqlite3.connect(ledger)) as connection:
        ((events, position),) = connection.execute(
            "SELECT count(*), coalesce(max(position), 0) FROM stored_event"
        ).fetchall()
    with ledger.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "events": events,
        "position": position,
        "sha256": digest,
        "sizeBytes": ledger.stat().st_size,
    }
