"""What a worker printed: read in blocks, and never from outside of the attempts' folder."""

import os
import stat
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO

from ledger.events import Job

BLOCK_BYTES = 1 << 16
FILE = "worker.log"


class WorkerLog:
    """The file that the worker of one job prints into; there is none until it starts."""

    def __init__(self, attempts: Path, run_id: str, job: Job, *, tail: int | None = None) -> None:
        """``tail``: begin with so many lines before the end; None: with the first one."""
        self._folders = (str(attempts), run_id, job.name)
        self._tail = tail
        self._file: BinaryIO | None = None

    def left(self) -> int:
        """Bytes from where reading goes on to the present end; opens the file where it is."""
        if self._file is None:
            self._file = _open(*self._folders)
            if self._file is None:
                return 0
            if self._tail is not None:
                self._file.seek(_begin_of_last_lines(self._file, self._tail))
        return os.fstat(self._file.fileno()).st_size - self._file.tell()

    def read(self, limit: int) -> bytes:
        """The next block, of at most ``limit`` bytes; nothing at the end."""
        return self._file.read(min(limit, BLOCK_BYTES)) if self._file is not None else b""

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()


def _open(attempts: str, *folders: str) -> BinaryIO | None:
    """The file in these folders; None where there is none, or where a link leads elsewhere."""
    try:
        place = os.open(attempts, os.O_RDONLY | os.O_DIRECTORY)
        for name in folders:
            place = _enter(place, name, os.O_DIRECTORY)
        file = os.fdopen(_enter(place, FILE, os.O_NONBLOCK), "rb", buffering=0)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    return None


def _enter(place: int, name: str, flags: int) -> int:
    """A descriptor of what has this name in an open folder, which is closed."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=place)
    finally:
        os.close(place)


def _begin_of_last_lines(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin; a last line without its end is one too."""
    place = file.seek(0, SEEK_END)
    wanted = lines + 1  # line feeds: the one before the first wanted line as well
    is_end = True
    while place > 0:
        begin = max(0, place - BLOCK_BYTES)
        file.seek(begin)
        block = file.read(place - begin)
        at = len(block)
        if is_end and not block.endswith(b"\n"):
            wanted -= 1
        is_end = False
        while wanted > 0 and (at := block.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
        if wanted == 0:
            return begin + at + 1
        place = begin
    return 0
