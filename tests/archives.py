"""Tar archives that a server answered, for tests."""

import io
import tarfile
from pathlib import Path


def unpack(content: bytes, folder: Path) -> Path:
    """The folder, with every file of an archive in it."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        # Python has the filter since 3.11.4, and warns since 3.12 where none is chosen.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder
