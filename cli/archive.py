"""Archives of the service: unpacked into a folder, or kept as one file; whole, or not at all.

Imports tarfile: load it late.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from cli.errors import CommandError, Exit, PassingError
from cli.wire import Json

if TYPE_CHECKING:
    from cli.client import Client

MANIFEST = "manifest.json"  # comes last: an archive without one broke off


def unpack(client: "Client", path: str, folder: Path, **parameters: Any) -> Json:
    """Unpack what ``path`` answers into a folder that is new or empty; its manifest.

    Raises:
        PassingError: the answer broke off; nothing is left of it.
        CommandError: the folder is not empty, or the service refused.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} is not empty", Exit.REFUSED, hint="name a new folder")
    partial = folder.absolute().with_name(f"{folder.absolute().name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    try:
        with client.download(path, silence=None, **parameters) as (_, parts):
            _unpack(parts, partial)
        manifest = _manifest(partial / MANIFEST)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def keep(client: "Client", path: str, file: Path, **parameters: Any) -> int:
    """Keep what ``path`` answers as one new file; its size.

    Raises:
        PassingError: the answer broke off; nothing is left of it.
        CommandError: there is such a file, or the service refused.
    """
    if file.exists():
        raise CommandError(f"{file} exists already", Exit.REFUSED, hint="name a new file")
    partial = file.with_name(f"{file.name}.partial")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with (
            os.fdopen(handle, "wb") as target,
            client.download(path, silence=None, **parameters) as (_, parts),
        ):
            for part in parts:
                target.write(part)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return size


def members(parts: Iterator[bytes]) -> Iterator[tuple[str, "IO[bytes]"]]:
    """Names and contents of the files of an archive; each is read before the next one.

    Raises:
        CommandError: it is no archive, or a file of it would lie somewhere else than below it.
    """
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Parts(parts)), mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or not _is_below(member.name):
                    raise foreign()
                yield member.name, content
    except tarfile.TarError:
        raise foreign() from None


def _unpack(parts: Iterator[bytes], folder: Path) -> None:
    """Write the files of an archive below ``folder``, and nothing anywhere else."""
    for name, content in members(parts):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            shutil.copyfileobj(content, file)


def _is_below(name: str) -> bool:
    """Whether a name in an archive leads to no other place than below its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _manifest(file: Path) -> Json:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PassingError("the archive broke off before its manifest", sent=True) from None
    return dict(said)


def foreign() -> CommandError:
    """What to say of an answer that is something else."""
    return CommandError(
        "the service answered with something that is no archive of ours",
        Exit.REFUSED,
        hint="is it a trainledger server of this version?",
    )


class _Parts(io.RawIOBase):
    """The parts of an answer as one file that is read once."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """That is what it is for."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer``, which a buffered reader makes, with what comes next; 0 at the end."""
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = memoryview(part)
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
