"""JSON lines: what each line of a file says, or a refusal that names the line."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from engine.errors import RefusalError

ONE_A_LINE = "write one JSON object a line"


class Line(NamedTuple):
    """A line that is not blank."""

    number: int  # from 1; blank lines count
    value: Any


class ListFileError(RefusalError):
    """The file is one JSON list of rows."""

    def __init__(self, path: Path, rows: list[Any]) -> None:
        super().__init__(
            f"{path} is one JSON list of {len(rows)} rows and not JSON lines; write each of them "
            "on a line of its own"
        )
        self.rows = rows


def read(path: Path) -> list[Line]:
    """What every line says that is not blank; a byte order mark is no text.

    Raises:
        RefusalError: the file cannot be read, a line is no JSON, or there is none.
    """
    found = [Line(number, _value(path, number, raw)) for number, raw in _lines(path)]
    if not found:
        raise RefusalError(f"{path} holds no rows; {ONE_A_LINE}")
    if len(found) == 1 and isinstance(found[0].value, list):
        raise ListFileError(path, found[0].value)
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                text = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if text.strip():
                    yield number, text
    except (FileNotFoundError, ValueError):  # a name that no file can have is a ValueError
        raise RefusalError(f"there is no file {path}; state a JSON lines file of rows") from None
    except OSError as error:
        raise RefusalError(f"{path} cannot be read: {error.strerror}") from None


def _value(path: Path, number: int, raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    if (text := _text(raw)) is None:
        raise RefusalError(f"line {number} of {path} is not UTF-8; save the file as UTF-8")
    if text.lstrip().startswith("[") and isinstance(whole := _whole(path), list):
        raise ListFileError(path, whole)
    if _is_lenient_json(text):
        raise RefusalError(
            f"line {number} of {path} holds a number that is not finite, or half a character "
            "(a lone surrogate); JSON has neither"
        )
    raise RefusalError(f"line {number} of {path} is not JSON: {text[:60]!r}; {ONE_A_LINE}")


def _text(raw: bytes) -> str | None:
    """A line as text; None where it is none, or has the zero bytes of UTF-16."""
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def _is_lenient_json(text: str) -> bool:
    """Whether a reader that is not strict would take it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _whole(path: Path) -> Any:
    """What the file says as one JSON document, if it is one."""
    try:
        return orjson.loads(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except (orjson.JSONDecodeError, OSError):
        return None
