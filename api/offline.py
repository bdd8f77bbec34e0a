"""What is done to a home while no server works in it: ``python -m api.offline COMMAND PATH``.

The command is ``import`` or ``restore``. The answer is one JSON object on stdout. A refusal is one
too, with ``error`` and ``hint``, and the exit status 4; the ledger of the home is then as it was.
"""

import hashlib
import os
import sqlite3
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from eventsourcing.persistence import PersistenceError
from pydantic import ValidationError
from pydantic_settings import SettingsError

from api import rows
from api.exchange import ARTIFACTS, EVENTS, FORMAT, MANIFEST
from api.home import LEDGER, PUBLISHED, WAREHOUSE, own
from api.settings import Settings
from api.wire import dump
from engine.dispatch.artifacts import ArtifactError, ArtifactStore
from engine.dispatch.local import DATASETS
from ledger import exchange
from ledger.errors import LedgerError, RefusedError
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.rebuild import forget_documents

REFUSED = 4
BLOCK_BYTES = 2**20
OTHER_HOME = "set TRAINLEDGER_HOME to a new folder, or move this one away"

Answer = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Carry out one command; its exit status."""
    command, path = arguments
    try:
        settings = Settings()
        answer = COMMANDS[command](settings, Path(path))
    except (ValidationError, SettingsError, tomllib.TOMLDecodeError) as error:
        return _refuse(f"the settings of the server are wrong: {error}", "")
    except (LedgerError, ArtifactError) as error:
        return _refuse(str(error), getattr(error, "hint", ""))
    except (OSError, PersistenceError, tarfile.TarError, sqlite3.Error) as error:
        return _refuse(f"{path}: {error}", "")
    sys.stdout.buffer.write(dump(answer) + b"\n")
    return 0


def _refuse(sentence: str, hint: str) -> int:
    sys.stdout.buffer.write(dump({"error": sentence, "hint": hint}) + b"\n")
    return REFUSED


def import_(settings: Settings, folder: Path) -> Answer:
    """Make the empty ledger of a home equal to the one that was exported to ``folder``.

    Raises:
        LedgerError: the export is not whole, or the home is not empty.
        ArtifactError: a snapshot in the export is not what was exported.
    """
    manifest = _manifest(_read(folder / MANIFEST), "export")
    with _empty(settings.home) as fresh:
        database = Database(fresh, synchronous="NORMAL")  # it is nothing until it is moved
        try:
            with (folder / EVENTS).open("rb") as lines:
                tale = exchange.load(SQLiteRecorder(database), lines)
            unfinished = len(Ledger(SQLiteRecorder(database), clock=_never).open_runs())
        finally:
            database.close()
        _compare(tale._asdict(), manifest, ("events", "position", "digest"))
        snapshots = _adopt(settings, folder, manifest)
        datasets = rows.put(
            manifest.get("datasets", []),
            settings.home / DATASETS,
            lambda name: (folder / name).open("rb"),
        )
    counts = {"events": tale.events, "streams": tale.streams, "position": tale.position}
    files = {"snapshots": snapshots, "datasets": datasets}
    return {"home": str(settings.home), **counts, **files, "openRuns": unfinished}


def restore(settings: Settings, file: Path) -> Answer:
    """Put the ledger of a backup into an empty home; projections are made anew from it.

    Raises:
        LedgerError: the backup is not whole, or the home is not empty.
    """
    with _empty(settings.home) as fresh, tarfile.open(file, "r:") as archive:
        manifest = _manifest(_member(archive, MANIFEST).read(), "backup")
        _unpack(archive, fresh, manifest)
        forget_documents(fresh)
        database = Database(fresh)
        try:
            ledger = Ledger(SQLiteRecorder(database), clock=_never)
            found = {"position": ledger.position(), "openRuns": len(ledger.open_runs())}
        finally:
            database.close()
        found["datasets"] = rows.put(
            manifest.get("datasets", []),  # which an earlier version did not take along
            settings.home / DATASETS,
            lambda name: _member(archive, name),
        )
    counts = {"events": manifest["events"], **found, "madeAt": manifest["madeAt"]}
    return {"home": str(settings.home), **counts}


COMMANDS: dict[str, Callable[[Settings, Path], Answer]] = {"import": import_, "restore": restore}


# -- the home --------------------------------------------------------------------------------------


@contextmanager
def _empty(home: Path) -> Iterator[Path]:
    """Where the ledger of an empty home is to be made; it is put in place when the block ends.

    Raises:
        RefusedError: a server works in the home, or its ledger holds events.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with own(home) as taken:
        if taken:
            raise RefusedError(f"a server works {taken}", "trainledger server stop")
        if events := _events(home / LEDGER):
            raise RefusedError(f"{home} is not empty: its ledger has {events} events", OTHER_HOME)
        fresh = home / f"{LEDGER}.new"
        _remove(fresh)
        try:
            yield fresh
            for name in (LEDGER, WAREHOUSE, PUBLISHED):  # of a server that had nothing to do yet
                _remove(home / name)
            _put(fresh, home / LEDGER)
        finally:
            _remove(fresh)


def _events(ledger: Path) -> int:
    """Events that a home has already."""
    if not ledger.exists():
        return 0
    with closing(sqlite3.connect(ledger)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM stored_event").fetchall()
    return int(count)


def _remove(file: Path) -> None:
    """Delete a database with the files that belong to it."""
    for suffix in ("", "-wal", "-shm", ".wal"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).unlink()


def _put(fresh: Path, target: Path) -> None:
    """Move a database into place, where it is on the disk afterwards."""
    for path, move in ((fresh, True), (target.parent, False)):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if move:
            fresh.replace(target)


# -- what comes in ---------------------------------------------------------------------------------


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise RefusedError(
            f"there is no {file.name} in {file.parent}: it is no export, or one that broke off",
            "export the ledger again",
        ) from None


def _manifest(text: bytes, kind: str) -> Answer:
    """What the manifest of an export or backup says.

    Raises:
        RefusedError: it is of something else, or a later version wrote it.
    """
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict) or said.get("kind") != kind:
        raise RefusedError(f"{MANIFEST} is not that of {'an' if kind == 'export' else 'a'} {kind}")
    if said.get("format") != FORMAT:
        raise RefusedError(
            f"the {kind} has format {said.get('format')}, and {FORMAT} is understood",
            f"install trainledger {said.get('version')} or later",
        )
    return said


def _compare(found: Answer, manifest: Answer, names: tuple[str, ...]) -> None:
    """Refuse what is not what the manifest says of it."""
    for name in names:
        if found[name] != manifest.get(name):
            raise RefusedError(
                f"{name} is {found[name]}, and the manifest says {manifest.get(name)}: something "
                "was removed, changed or cut off",
                exchange.HINT,
            )


def _adopt(settings: Settings, folder: Path, manifest: Answer) -> int:
    """Take over the files of the snapshots that were exported; how many there are."""
    store = ArtifactStore(settings.artifacts or f"file://{settings.home.resolve()}/snapshots")
    exported = [each for each in manifest["snapshots"] if each["artifacts"]]
    for each in exported:
        run_id, snapshot_id = each["runId"], each["snapshotId"]
        try:
            store.adopt(run_id, snapshot_id, folder / ARTIFACTS / run_id / snapshot_id)
        except ValueError as error:
            raise RefusedError(f"{MANIFEST} names a snapshot that cannot be one: {error}") from None
    return len(exported)


def _member(archive: tarfile.TarFile, name: str) -> Any:
    """A file in an archive, whatever else there is: nothing is unpacked by the archive's names."""
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise RefusedError(f"there is no {name} in the backup: it is none, or it broke off")
    return file


def _unpack(archive: tarfile.TarFile, fresh: Path, manifest: Answer) -> None:
    digest, size = hashlib.sha256(), 0
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as target, _member(archive, LEDGER) as source:
        while block := source.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            target.write(block)
    found = {"sha256": digest.hexdigest(), "sizeBytes": size}
    _compare(found, manifest, ("sizeBytes", "sha256"))


def _never() -> Any:
    raise AssertionError("nothing is written to the ledger here")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
