"""The folder that a worker wrote: which files it holds, and their bytes."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from engine.dispatch.artifacts.errors import SaveError, because
from engine.dispatch.artifacts.manifest import Measure, checked_name

BLOCK_BYTES = 1 << 20


def files_below(folder: Path) -> dict[str, Path]:
    """Every file below ``folder``, by its name relative to it; folders without files are left out.

    A link counts as the file of the same folder that it leads to.

    Raises:
        SaveError: there is no such folder, it cannot be read, or holds what no snapshot can.
    """
    try:
        root = Path(os.path.realpath(folder, strict=True))
        if not root.is_dir():
            raise SaveError(f"{folder.name} is no folder")
        found = dict(sorted(_walk(root)))
    except FileNotFoundError:
        raise SaveError(f"the folder {folder.name} is not there, or not all of it") from None
    except OSError as error:
        raise SaveError(f"the folder {folder.name} cannot be read{because(error)}") from error
    if not found:
        raise SaveError(f"the folder {folder.name} holds no files")
    return found


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append((f"{name}/", Path(entry.path)))
                else:
                    yield _safe(name), _file(name, entry, root)


def _safe(name: str) -> str:
    try:
        return checked_name(name)
    except ValueError as error:
        raise SaveError(str(error)) from None


def _file(name: str, entry: os.DirEntry[str], root: Path) -> Path:
    """Where the bytes of ``entry`` are."""
    if entry.is_file(follow_symlinks=False):
        return Path(entry.path)
    if not entry.is_symlink():
        raise SaveError(f"{name} is neither a file nor a folder")
    target = Path(os.path.realpath(entry.path))
    if not (target.is_relative_to(root) and target.is_file()):
        raise SaveError(f"{name} is a link, and not to a file of the same folder")
    return target


def measure(name: str, path: Path) -> Measure:
    """What the file holds now.

    Raises:
        SaveError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return Measure(sha256, file.tell())
    except OSError as error:
        raise SaveError(f"{name} cannot be read{because(error)}") from error


def blocks(name: str, path: Path) -> Iterator[bytes]:
    """The bytes of the file, in order.

    Raises:
        SaveError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise SaveError(f"{name} cannot be read{because(error)}") from error
