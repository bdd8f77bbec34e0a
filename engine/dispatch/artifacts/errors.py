"""What the artifact store raises; every message is one sentence for people.

ArtifactError
├── SaveError      these files cannot be a snapshot, or there is no room for them
├── DamagedError   the files of a snapshot are no longer what was saved
└── StoreError     the store cannot be used now; nothing is said about the files in it
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

NO_ROOM = {
    errno.ENOSPC: "there is no room on the disk",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "a file is larger than the disk takes",
}


class ArtifactError(Exception):
    """The root of what the artifact store raises."""


class SaveError(ArtifactError):
    """These files cannot be a snapshot, or there is no room for them."""


class DamagedError(ArtifactError):
    """The files of a snapshot are no longer what was saved."""


class StoreError(ArtifactError):
    """The store cannot be used now; another time it may."""


def because(error: Exception) -> str:
    """The reason of ``error``, as the end of a sentence; paths and addresses stay out of it."""
    if not isinstance(error, OSError) or error.errno is None:
        return ""
    return f": {NO_ROOM.get(error.errno) or os.strerror(error.errno)}"


@contextmanager
def unusable(what: str) -> Iterator[None]:
    """Turn what a disk or a store raises into a StoreError whose sentence begins with ``what``.

    Each plugin of fsspec has errors of its own, of which not all are OSErrors. None may stop the
    work on runs that do not need this store.
    """
    try:
        yield
    except ArtifactError:
        raise
    except Exception as error:
        raise StoreError(f"{what}{because(error)}") from error


@contextmanager
def no_room_refuses() -> Iterator[None]:
    """Turn what goes wrong when the store is written into what the caller can decide upon.

    Raises:
        SaveError: there is no room.
        StoreError: anything else.
    """
    with unusable("the artifact store cannot be written"):
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise SaveError(f"the snapshot cannot be stored{because(error)}") from error
            raise
