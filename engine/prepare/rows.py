"""Rows of a file, in one of two forms: chats, or tokens that somebody prepared.

Which form a file has is decided by all of its rows, never by the first.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import orjson

from engine.errors import RefusalError
from engine.prepare import chat, lines, prepared
from engine.prepare.chat import ChatRow
from engine.prepare.faults import Fault, refusal
from engine.prepare.lines import ListFileError
from engine.prepare.prepared import PreparedRow


@dataclass(frozen=True)
class Rows:
    """What every file of rows has."""

    file: str
    lines: list[int]  # on which each row stands

    def __len__(self) -> int:
        """How many rows there are; blank lines are none."""
        return len(self.lines)

    def refusal(self, faults: Mapping[int, Fault]) -> RefusalError:
        """The refusal for faults by the number of the row, from 1."""
        return refusal(self.file, faults, self.lines)


@dataclass(frozen=True)
class ChatRows(Rows):
    """A file of chats."""

    rows: list[ChatRow]

    form: ClassVar[str] = "chat"

    def identity(self) -> str:
        """SHA-256 over the examples, however their lines are written."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        said = (orjson.dumps(list(row), option=orjson.OPT_SORT_KEYS) for row in self.rows)
        return _digest(self.form, said)


@dataclass(frozen=True)
class PreparedRows(Rows):
    """A file of tokens."""

    rows: list[PreparedRow]

    form: ClassVar[str] = "tokens"

    def identity(self) -> str:
        """SHA-256 over the examples, however their lines are written."""
        return _digest(self.form, (b"".join(map(bytes, row[:2])) for row in self.rows))


def read(path: Path, name: str = "") -> ChatRows | PreparedRows:
    """Every row of a file, checked as far as that needs no tokenizer.

    Args:
        path: the file.
        name: what refusals of its rows call it; by default its path.

    Raises:
        RefusalError: about the first row that is at fault, with the number of rows like it.
    """
    try:
        found = lines.read(path)
    except ListFileError as whole:
        raise _with_first_row(whole) from None
    file, places = name or str(path), [line.number for line in found]
    values = [line.value for line in found]
    is_prepared = _are_prepared(values)
    fault_of = prepared.fault if is_prepared else _chat_fault
    faults = {number: fault for number, row in enumerate(values, 1) if (fault := fault_of(row))}
    if faults:
        raise refusal(file, faults, places)
    if is_prepared:
        return PreparedRows(file, places, [prepared.row(value) for value in values])
    return ChatRows(file, places, [chat.row(value) for value in values])


def divide(file: str, count: int, fraction: float, *, seed: int) -> tuple[list[int], list[int]]:
    """Places, from 0, of the rows to train on and of those kept apart: at least one.

    The same seed keeps the same rows.
    """
    apart = max(1, round(count * fraction))
    if apart >= count:
        raise RefusalError(
            f"nothing left to train on: validation.fraction {fraction} keeps {apart} of the "
            f"{count} rows of {file} apart; state a smaller fraction or more rows"
        )
    kept = set(random.Random(seed).sample(range(count), apart))  # noqa: S311 - no secret
    return [n for n in range(count) if n not in kept], sorted(kept)


def _digest(form: str, rows: Iterable[bytes]) -> str:
    found = hashlib.sha256(f"{form}\n".encode())
    for row in rows:
        found.update(len(row).to_bytes(8, "little"))
        found.update(row)
    return found.hexdigest()


def _are_prepared(values: list[Any]) -> bool:
    """Whether the rows are tokens: none has messages, and some have tokens."""
    objects = [row for row in values if isinstance(row, dict)]
    return any("input_ids" in row for row in objects) and not any(
        "messages" in row for row in objects
    )


def _chat_fault(row: Any) -> Fault | None:
    if isinstance(row, dict) and "input_ids" in row and "messages" not in row:
        return Fault(
            "a row of tokens is among chat rows",
            "input_ids",
            "keep chat rows and prepared rows in files of their own",
        )
    return chat.fault(row)


def _with_first_row(whole: ListFileError) -> RefusalError:
    """What to do about a list, and about what is in it."""
    first = whole.rows[0] if whole.rows else None
    fault = prepared.fault(first) if _are_prepared([first]) else chat.fault(first)
    if not whole.rows or fault is None:
        return whole
    return RefusalError(f"{whole}. Also, {fault.sentence}: row 1, {fault.where}; {fault.advice}")
