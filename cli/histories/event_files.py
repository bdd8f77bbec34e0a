"""Event files of TensorBoard: records with checksums, each a message of protocol buffers.

Only scalars are read, as every version of TensorBoard, PyTorch and TensorFlow 2 writes them; a
number has the precision that the file has, mostly 32 bits.
Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto,
tensorflow/core/framework/{summary,tensor}.proto.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cli.histories.history import (
    EXACT,
    LAST_SECOND,
    History,
    broken,
    digest,
    is_validation,
    listed,
)

_POLYNOMIAL = 0x82F63B78  # CRC-32C
_MASK = 0xA282EAD8
_FLOAT, _DOUBLE = 1, 2  # tensorflow.DataType
_FIXED = {_FLOAT: "<f", _DOUBLE: "<d"}
Value = int | bytes  # of a field: an integer, or bytes; of fixed size those of the number


class Scalar(NamedTuple):
    """One number of an event file."""

    at: float  # seconds since 1970
    step: int
    name: str
    value: float


def read(folder: Path) -> History:
    """What the event files of a folder say; those below it are other runs.

    Raises:
        CommandError: there is none, or one is damaged.
    """
    files = sorted(each for each in folder.iterdir() if "tfevents" in each.name)
    if not files:
        raise _nothing(folder)
    contents = [each.read_bytes() for each in files]
    whole = digest(b"".join(digest(each).encode() for each in contents))
    history = History("tensorboard", files[0].name, whole)
    for file, content in zip(files, contents, strict=True):
        for scalar in _scalars(content, file.name, history.others):
            place = f"{file.name}, step {scalar.step}"
            if scalar.step >= EXACT or not 0 <= scalar.at <= LAST_SECOND:
                raise broken(
                    f"{place} at {scalar.at} s: there is no such step, or no such time",
                    "the file is damaged; nothing was imported",
                )
            history.add(
                place,
                scalar.step,
                {scalar.name: scalar.value},
                validation=is_validation(scalar.name),
                at=scalar.at,
            )
    return history


def _nothing(folder: Path) -> Exception:
    below = sorted({str(each.parent.relative_to(folder)) for each in folder.rglob("*tfevents*")})
    return broken(
        f"{folder} has no event files",
        f"name a folder below it: {listed(below)}" if below else "name the log folder of a run",
    )


def _scalars(content: bytes, name: str, others: set[str]) -> Iterator[Scalar]:
    """The numbers of a file; ``others`` gets the tags of what is no number."""
    for number, record in enumerate(_records(content, name), 1):
        try:
            yield from _of_event(record, others)
        except (struct.error, IndexError, UnicodeDecodeError):
            raise broken(
                f"{name}, record {number} is no event of TensorBoard", "nothing was imported"
            ) from None


def _records(content: bytes, name: str) -> Iterator[bytes]:
    """The records of a file. The last one may be cut off, as that of a trainer that was killed."""
    place, number = 0, 0
    while len(content) - place >= 12:
        number += 1
        (size, check) = struct.unpack_from("<QI", content, place)
        if _masked(content[place : place + 8]) != check:
            raise _damaged(name, number)
        begin, place = place + 12, place + 16 + size
        if place > len(content):
            return
        record = content[begin : begin + size]
        if struct.unpack_from("<I", content, begin + size)[0] != _masked(record):
            raise _damaged(name, number)
        yield record


def _damaged(name: str, number: int) -> Exception:
    return broken(
        f"{name}, record {number} does not have the checksum that stands beside it",
        "the file is damaged or no event file; nothing was imported",
    )


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)  # noqa: PLW2901 (shifted out)
        table.append(byte)
    return table


_TABLE = _table()


def _masked(data: bytes) -> int:
    """The checksum of a record."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


# -- messages --------------------------------------------------------------------------------------


def _of_event(record: bytes, others: set[str]) -> Iterator[Scalar]:
    at, step, summary = 0.0, 0, None
    for field, value in _fields(record):
        if field == 1 and isinstance(value, bytes):
            (at,) = struct.unpack("<d", value)
        elif field == 2 and isinstance(value, int):
            step = value
        elif field == 5 and isinstance(value, bytes):
            summary = value
    for field, value in _fields(summary or b""):
        if field == 1 and isinstance(value, bytes):
            name, found = _value(value)
            if found is None:
                others.add(name)
            else:
                yield Scalar(at, step, name, found)


def _value(message: bytes) -> tuple[str, float | None]:
    """Name and number of one value of a summary; None where it is something else."""
    name, found = "", None
    for field, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            name = value.decode()
        elif field == 2:
            (found,) = struct.unpack("<f", value)
        elif field == 8:
            found = _tensor(value)
    return name, found


def _tensor(message: bytes) -> float | None:
    """The number of a tensor that has one alone."""
    kind, size, numbers = 0, 1, b""
    for field, value in _fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2 and isinstance(value, bytes):
            size = 0 if value else 1  # a shape without dimensions is that of a number
        elif field in (4, 5, 6) and isinstance(value, bytes):
            numbers = value  # as they lie in memory, or packed floats or doubles
    form = _FIXED.get(kind)
    if form is None or size != 1 or len(numbers) != struct.calcsize(form):
        return None
    found: float = struct.unpack(form, numbers)[0]
    return found


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Numbers and values of the fields of a message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        else:
            size = {1: 8, 5: 4}.get(kind, len(message))
        place += size
        if place > len(message):
            raise IndexError(place)
        yield key >> 3, message[place - size : place]


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return value, place
