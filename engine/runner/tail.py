"""Tail: the whole lines of a spool that grows, with their numbers."""

import os
from pathlib import Path

BLOCK_BYTES = 1_048_576  # read at once; with JSON's escapes a batch stays below 2 MB
BATCH_LINES = 2_000
LINE_BYTES = 1_000_001  # of a longer line only so much is forwarded: the ledger rejects it anyway


class Tail:
    """Reads a spool line by line; a line counts when its newline is there.

    A beginning of a line is never kept: the worker may still take it back.
    """

    def __init__(self, path: Path) -> None:
        self.next_line = 1  # number of the line that is read next
        self._offset = 0
        path.touch(mode=0o600)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def read(self) -> list[str]:
        """The next whole lines, none where there are none yet."""
        if not self.unread_bytes():
            return []
        block = os.pread(self._file, BLOCK_BYTES, self._offset)
        if len(block) == BLOCK_BYTES and b"\n" not in block:
            return self._long_line(block)
        lines = block.split(b"\n", BATCH_LINES)[:-1]
        self._offset += sum(map(len, lines)) + len(lines)
        self.next_line += len(lines)
        return [_text(line) for line in lines]

    def has_line(self) -> bool:
        """Whether a whole line is there to be read."""
        return self.unread_bytes() > 0 and self._newline_from(self._offset) is not None

    def unread_bytes(self) -> int:
        """Bytes behind the last line that was read."""
        return max(0, os.fstat(self._file).st_size - self._offset)

    def seek(self, taken: int) -> None:
        """Read on with the line after the first ``taken`` ones."""
        offset, left = 0, taken
        while left and (block := os.pread(self._file, BLOCK_BYTES, offset)):
            *lines, rest = block.split(b"\n", left)
            left -= len(lines)
            offset += len(block) - (0 if left else len(rest))
        self._offset = offset
        self.next_line = taken + 1

    def _long_line(self, beginning: bytes) -> list[str]:
        """A line that is longer than a block, cut."""
        newline = self._newline_from(self._offset + len(beginning))
        if newline is None:
            return []
        self._offset = newline + 1
        self.next_line += 1
        return [_text(beginning)]

    def _newline_from(self, offset: int) -> int | None:
        """Where the first newline from ``offset`` on is."""
        while block := os.pread(self._file, BLOCK_BYTES, offset):
            found = block.find(b"\n")
            if found >= 0:
                return offset + found
            offset += len(block)
        return None


def _text(line: bytes) -> str:
    """The characters of ``line``; bytes that are none become their hexadecimal escapes."""
    return line[:LINE_BYTES].decode("utf-8", "backslashreplace")
