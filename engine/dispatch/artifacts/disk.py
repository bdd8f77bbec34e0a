"""What fsspec leaves to us: private folders, and files that are on the disk once written.

On disks of this machine nobody but the owner may read what the store holds, and it survives a loss
of power. Object stores and the like see to both by themselves, by their own settings.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem


def make_folder(disk: AbstractFileSystem, folder: str) -> None:
    """Make the folder and those above it that are missing, for the owner alone."""
    if not isinstance(disk, LocalFileSystem):
        disk.makedirs(folder, exist_ok=True)
        return
    missing = Path(folder)
    if missing.is_dir():
        return
    make_folder(disk, str(missing.parent))
    missing.mkdir(mode=0o700, exist_ok=True)
    sync_folder(disk, str(missing.parent))


@contextmanager
def new_file(disk: AbstractFileSystem, path: str) -> Iterator[IO[bytes]]:
    """A file to write, in place of any that was there; it is on the disk when the block ends."""
    with disk.open(path, "wb") as file:
        if isinstance(disk, LocalFileSystem):
            os.fchmod(file.fileno(), 0o600)
        yield file
        if isinstance(disk, LocalFileSystem):
            file.flush()
            os.fsync(file.fileno())


def sync_folder(disk: AbstractFileSystem, folder: str) -> None:
    """See to it that the names in the folder are on the disk."""
    if isinstance(disk, LocalFileSystem):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_away(disk: AbstractFileSystem, folder: str) -> bool:
    """Whether a folder of this machine is missing, as of a disk that is not mounted.

    Stores that have no folders are never away: one that cannot be reached says so.
    """
    return isinstance(disk, LocalFileSystem) and not Path(folder or "/").is_dir()


def remove_folder(disk: AbstractFileSystem, folder: str) -> None:
    """Delete the folder with all that it holds, if it is there; links are not followed."""
    if isinstance(disk, LocalFileSystem):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        return
    for path in disk.find(folder):  # by name: fsspec's own rm would look for patterns in it
        disk.rm_file(path)
    for path in reversed(disk.find(folder, withdirs=True)):
        with suppress(OSError):  # most of these disks have no folders
            disk.rmdir(path)
