"""The store itself: saves, fetches, verifies and gives up the files of snapshots.

``ROOT/RUN/SNAPSHOT/manifest.json`` and ``ROOT/RUN/SNAPSHOT/files/...``. The manifest comes last and
goes last: a folder without one was never saved whole. docs/snapshots.md has more of it.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from fsspec.core import url_to_fs
from pydantic import JsonValue

from engine.dispatch.artifacts import disk, manifest as manifests, source
from engine.dispatch.artifacts.errors import (
    ArtifactError,
    DamagedError,
    SaveError,
    StoreError,
    no_room_refuses,
    unusable,
)
from engine.dispatch.artifacts.manifest import Manifest, StoredFile
from ledger.events import Artifact

RUN_ID = re.compile("[0-9a-f]{1,64}")
SNAPSHOT_ID = re.compile("[0-9a-f]{64}")
MANIFEST = "manifest.json"
FILES = "files"
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # nothing there, or no file


class Saved(NamedTuple):
    """What was saved, as the ledger keeps it."""

    snapshot_id: str
    uri: str  # the folder with the manifest; secrets in the store's own URL are not in it
    size_bytes: dict[Artifact, int]
    digests: dict[Artifact, str]


class ArtifactStore:
    """Keeps snapshots below a URL that fsspec understands.

    Nothing here decides what is a snapshot: that is the ledger's, and files that it does not know
    of are worth nothing. Every method refuses ids that are not hexadecimal with a ValueError.
    """

    def __init__(self, url: str) -> None:
        """Reach the store at ``url``; nothing is made there until something is saved.

        Raises:
            StoreError: nothing installed here reads such a URL, or nobody answers there.
        """
        with unusable("the artifact store cannot be reached"):
            try:
                self._disk, root = url_to_fs(url)
            except (ValueError, ImportError) as error:
                raise StoreError(f"the artifact store's URL cannot be used: {error}") from error
        self._root: str = root.rstrip("/")

    # -- saving

    def save(
        self,
        run: str,
        folder: Path,
        *,
        artifacts: Sequence[Artifact],
        facts: Mapping[str, JsonValue],
    ) -> Saved:
        """Copy every file below ``folder`` into the store, where it is on the disk afterwards.

        The same files and facts are the same snapshot: saving them again writes what is missing.

        Raises:
            SaveError: the files cannot be a snapshot, they changed, or there is no room for them.
            StoreError: the store cannot be written.
        """
        paths = source.files_below(folder)
        measures = {name: source.measure(name, path) for name, path in paths.items()}
        manifest = manifests.describe(run, measures, artifacts=artifacts, facts=facts)
        encoded = manifest.encoded()
        place = self._place(run, manifests.identify(encoded))
        with self._taken_back_unless_whole(place), no_room_refuses():
            self._copy(place, manifest, paths)
            if source.files_below(folder).keys() != paths.keys():
                raise SaveError(f"the folder {folder.name} was changed while it was copied")
            self._commit(place, encoded)
        return Saved(
            snapshot_id=manifests.identify(encoded),
            uri=self._disk.unstrip_protocol(place),
            size_bytes=manifest.size_bytes(),
            digests=manifest.digests(),
        )

    def adopt(self, run: str, snapshot_id: str, folder: Path) -> None:
        """Take over a snapshot from a copy of its folder, with the files that are kept of it.

        Raises:
            DamagedError: the copy is not of this snapshot.
            SaveError: a file in it is not the one that was saved, or there is no room for it.
            StoreError: the store cannot be written.
        """
        place = self._place(run, snapshot_id)
        encoded = (folder / MANIFEST).read_bytes()
        manifest = manifests.read(encoded, run=run, snapshot_id=snapshot_id)
        paths = source.files_below(folder / FILES)
        if strange := paths.keys() - manifest.files.keys():
            raise DamagedError(f"{min(strange)} is no file of snapshot {snapshot_id[:12]}")
        kept = {name: file for name, file in manifest.files.items() if name in paths}
        with self._taken_back_unless_whole(place), no_room_refuses():
            self._copy(place, manifest.model_copy(update={"files": kept}), paths)
            self._commit(place, encoded)

    @contextmanager
    def _taken_back_unless_whole(self, place: str) -> Iterator[None]:
        """Delete what was copied when the rest cannot be: a full disk needs the room."""
        try:
            yield
        except ArtifactError:
            with suppress(StoreError), unusable("what was copied cannot be taken back"):
                if self._size(f"{place}/{MANIFEST}") is None:
                    disk.remove_folder(self._disk, place)
            raise

    def _copy(self, place: str, manifest: Manifest, paths: Mapping[str, Path]) -> None:
        """Write each file that is not there yet with all its bytes."""
        for name, file in manifest.files.items():
            target = f"{place}/{FILES}/{name}"
            if not self._holds(target, file, name=name):
                self._write(target, source.blocks(name, paths[name]), name=name, file=file)
        for folder in _folders(f"{place}/{FILES}", manifest.files):
            disk.sync_folder(self._disk, folder)

    def _holds(self, path: str, file: StoredFile, *, name: str) -> bool:
        try:
            _read_all(self._verified(path, file, which=name))
        except DamagedError:
            return False
        return True

    def _write(self, path: str, blocks: Iterable[bytes], *, name: str, file: StoredFile) -> None:
        disk.make_folder(self._disk, _above(path))
        digest = hashlib.sha256()
        with disk.new_file(self._disk, path) as target:
            for block in blocks:
                digest.update(block)
                target.write(block)
        if digest.hexdigest() != file.sha256:
            raise SaveError(f"{name} was changed while it was copied")

    def _commit(self, place: str, encoded: bytes) -> None:
        """Write the manifest, now that everything it names is on the disk."""
        with disk.new_file(self._disk, f"{place}/{MANIFEST}") as target:
            target.write(encoded)
        for folder in (place, _above(place), _above(_above(place))):
            disk.sync_folder(self._disk, folder)

    # -- reading

    def manifest(self, run: str, snapshot_id: str) -> Manifest:
        """What the snapshot consists of.

        Raises:
            DamagedError: there is no manifest, or not the one that was saved.
            StoreError: the store cannot be read.
        """
        path = f"{self._place(run, snapshot_id)}/{MANIFEST}"
        self._disk.invalidate_cache()
        with unusable("the artifact store cannot be read"):
            try:
                encoded = self._disk.cat_file(path)
            except ABSENT:
                if disk.is_away(self._disk, self._root):
                    raise StoreError("the artifact store is not where it was") from None
                which = f"the manifest of snapshot {snapshot_id[:12]}"
                raise DamagedError(f"{which} is missing") from None
        return manifests.read(encoded, run=run, snapshot_id=snapshot_id)

    def fetch(
        self,
        run: str,
        snapshot_id: str,
        folder: Path,
        artifacts: Collection[Artifact] | None = None,
    ) -> Manifest:
        """Make ``folder`` a copy of the files that ``artifacts`` need, every byte of it verified.

        It is there whole or not at all, and replaces one that was there before.

        Raises:
            DamagedError: a file is not what was saved; the sentence names it.
            StoreError: the store cannot be read, or there is no room for the copy.
            ValueError: the snapshot does not hold one of ``artifacts``.
        """
        manifest = self.manifest(run, snapshot_id)
        files = manifest.files_of(artifacts)
        partial = folder.with_name(f"{folder.name}.partial")
        with unusable(f"snapshot {snapshot_id[:12]} cannot be copied"):
            _remove(partial)
            try:
                partial.mkdir(mode=0o700, parents=True)
                for name, blocks in self._contents(run, snapshot_id, files):
                    _fill(partial / name, blocks)
                _remove(folder)
                partial.rename(folder)
            finally:
                _remove(partial)
        return manifest

    def verify(
        self, run: str, snapshot_id: str, artifacts: Collection[Artifact] | None = None
    ) -> None:
        """Read every file that ``artifacts`` need.

        Raises:
            DamagedError: a file is not what was saved; the sentence names it.
            StoreError: the store cannot be read.
            ValueError: the snapshot does not hold one of ``artifacts``.
        """
        files = self.manifest(run, snapshot_id).files_of(artifacts)
        for _, blocks in self._contents(run, snapshot_id, files):
            _read_all(blocks)

    def _contents(
        self, run: str, snapshot_id: str, files: Mapping[str, StoredFile]
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        place = self._place(run, snapshot_id)
        for name, file in files.items():
            which = f"{name} of snapshot {snapshot_id[:12]}"
            yield name, self._verified(f"{place}/{FILES}/{name}", file, which=which)

    def _verified(self, path: str, file: StoredFile, *, which: str) -> Iterator[bytes]:
        """The bytes of a stored file; they count only once the last one came without an error."""
        digest, size = hashlib.sha256(), 0
        for block in self._blocks(path, which=which):
            digest.update(block)
            size += len(block)
            if size > file.size_bytes:
                raise DamagedError(f"{which} has more than the {file.size_bytes} bytes it had")
            yield block
        if size < file.size_bytes:
            raise DamagedError(f"{which} has {size} bytes of the {file.size_bytes} it had")
        if digest.hexdigest() != file.sha256:
            raise DamagedError(
                f"{which} was changed: its SHA-256 is {digest.hexdigest()}, not {file.sha256}"
            )

    def _blocks(self, path: str, *, which: str) -> Iterator[bytes]:
        with unusable(f"{which} cannot be read"):
            try:
                with self._disk.open(path, "rb") as stored:
                    while block := stored.read(source.BLOCK_BYTES):
                        yield block
            except ABSENT:
                raise DamagedError(f"{which} is missing") from None

    # -- giving up

    def remove(self, run: str, snapshot_id: str, artifacts: Collection[Artifact]) -> int:
        """Delete the files of these kinds, and with the last file the manifest.

        Weights that a training state shares go with the weights.

        Returns:
            The bytes that the files had; 0 where they were gone before.

        Raises:
            DamagedError: the manifest cannot tell which files these are; ``discard`` needs none.
            StoreError: the store cannot be used.
        """
        place = self._place(run, snapshot_id)
        with unusable("the files of a snapshot cannot be deleted"):
            try:
                manifest = self.manifest(run, snapshot_id)
            except DamagedError:
                if self._sizes(place):
                    raise
                disk.remove_folder(self._disk, place)  # nothing, or what a crash left of it
                return 0
            return self._give_up(place, manifest, manifest.own_files(artifacts))

    def _give_up(self, place: str, manifest: Manifest, doomed: Collection[str]) -> int:
        freed, is_empty = 0, True
        for name in manifest.files:
            path = f"{place}/{FILES}/{name}"
            size = self._size(path)
            if size is not None and name in doomed:
                self._disk.rm_file(path)
                freed += size
            elif size is not None:
                is_empty = False
        if is_empty:
            disk.remove_folder(self._disk, place)
        return freed

    def kept(self, run: str) -> list[str]:
        """The snapshots of the run of which there is a folder, whole or not.

        Raises:
            StoreError: the store cannot be read.
        """
        folder = self._run(run)
        self._disk.invalidate_cache()
        with unusable("the artifact store cannot be read"):
            try:
                names = self._disk.ls(folder, detail=False)
            except ABSENT:
                return []
        ids = (name.rstrip("/").rpartition("/")[2] for name in names)
        return sorted(each for each in ids if SNAPSHOT_ID.fullmatch(each))

    def discard(self, run: str, snapshot_id: str) -> int:
        """Delete a folder that nothing refers to, with whatever is in it.

        Returns:
            The bytes that its files had.

        Raises:
            StoreError: the store cannot be used.
        """
        place = self._place(run, snapshot_id)
        with unusable("the files of a snapshot cannot be deleted"):
            freed = sum(self._sizes(place))
            disk.remove_folder(self._disk, place)
            return freed

    def _size(self, path: str) -> int | None:
        """Bytes of the file; None if there is none, and an error where nobody can tell."""
        try:
            return int(self._disk.info(path)["size"])
        except ABSENT:
            return None

    def _sizes(self, folder: str) -> list[int]:
        """Bytes of every file below the folder."""
        self._disk.invalidate_cache()
        return [info["size"] for info in self._disk.find(folder, detail=True).values()]

    # -- places

    def _run(self, run: str) -> str:
        return f"{self._root}/{_checked(run, RUN_ID)}"

    def _place(self, run: str, snapshot_id: str) -> str:
        return f"{self._run(run)}/{_checked(snapshot_id, SNAPSHOT_ID)}"


def _checked(given: str, pattern: re.Pattern[str]) -> str:
    """An id that may become a part of a path."""
    if not pattern.fullmatch(given):
        raise ValueError(f"{given!r:.100} is no id: expected {pattern.pattern}")
    return given


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _folders(top: str, names: Iterable[str]) -> set[str]:
    """Every folder between ``top`` and the files with these names, ``top`` included."""
    parts = (name.split("/")[:-1] for name in names)
    return {"/".join([top, *part[:depth]]) for part in parts for depth in range(len(part) + 1)}


def _read_all(blocks: Iterable[bytes]) -> None:
    for _ in blocks:
        pass


def _fill(path: Path, blocks: Iterable[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        for block in blocks:
            file.write(block)


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
