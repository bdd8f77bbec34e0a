"""Folders that are whole under their name, and else absent or still named ``.partial``."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

PARTIAL = ".partial"


def write(folder: Path, files: Iterable[tuple[str, bytes | memoryview]]) -> Path:
    """Write each file, wait until the disk has all of them, and only then name the folder.

    A name may have folders in it. The files are taken one by one, so each may be made when its
    turn comes.

    Raises:
        OSError: the disk did not take them; nothing is left.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)  # of a worker that died in between
    try:
        _fill(partial, files)
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync(folder.parent)
    return folder


def _fill(folder: Path, files: Iterable[tuple[str, bytes | memoryview]]) -> None:
    """Write each file, then every folder's list of names."""
    folder.mkdir(parents=True)
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for each in [folder, *folder.rglob("*")]:
        if each.is_dir():
            _sync(each)


def _sync(folder: Path) -> None:
    """Wait until the disk has the folder's list of names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
