"""Tar archives that are sent while they are made."""

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

TAR = "application/x-tar"
BLOCK_BYTES = 2**20
END = bytes(2 * tarfile.BLOCKSIZE)


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    size_bytes: int
    blocks: Iterable[bytes]

    @classmethod
    def of(cls, name: str, path: Path) -> "Member":
        """A file of this machine."""
        return cls(name, path.stat().st_size, _read(path))

    @classmethod
    def text(cls, name: str, content: bytes) -> "Member":
        """A file that is there already."""
        return cls(name, len(content), [content])


def pack(members: Iterable[Member], *, changed: int) -> Iterator[bytes]:
    """The bytes of an archive; ``changed``: when its files were, in seconds since 1970."""
    for member in members:
        head = tarfile.TarInfo(member.name)
        head.size, head.mtime, head.mode = member.size_bytes, changed, 0o600
        yield head.tobuf(tarfile.PAX_FORMAT)
        yield from member.blocks
        yield bytes(-member.size_bytes % tarfile.BLOCKSIZE)
    yield END


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
