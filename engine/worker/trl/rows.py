"""Chat rows: read from JSON lines, or refused with the file, the row, the field and what to do.

Nothing here needs torch, so a refusal takes a second and not ten.
"""

import codecs
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from engine.worker.trl.errors import RefusalError
from ledger.plan import Plan

ROLES = ("system", "user", "assistant")
SHAPE = 'write every row as {"messages": [{"role": "user", "content": "..."}, ...]}'

Message = dict[str, str]


class ChatRow(NamedTuple):
    """One example, with its place in its file."""

    file: str
    number: int  # from 1; blank lines are no rows
    messages: list[Message]


@dataclass(frozen=True)
class Data:
    """What is trained on, and what is kept apart to measure on."""

    rows: int  # of the dataset's own file
    training: list[ChatRow]
    validation: list[ChatRow]


class Fault(NamedTuple):
    """What is wrong with a row."""

    sentence: str  # the same for every row with this fault
    where: str  # the field, as the file has it
    advice: str


def load(plan: Plan) -> Data:
    """The rows of the plan's dataset, divided as its validation says.

    Raises:
        RefusalError: a file or a row of it is at fault.
    """
    rows = read(Path(plan.dataset))
    if plan.validation is None:
        return Data(len(rows), rows, [])
    if plan.validation.dataset is not None:
        return Data(len(rows), rows, read(Path(plan.validation.dataset)))
    return split(rows, plan.validation.fraction or 0.1, seed=plan.config.seed)


def split(rows: list[ChatRow], fraction: float, *, seed: int) -> Data:
    """Keep ``fraction`` of the rows apart, at least one; the same seed keeps the same rows."""
    count = max(1, round(len(rows) * fraction))
    if count >= len(rows):
        raise RefusalError(
            f"nothing left to train on: validation.fraction {fraction} keeps {count} of the "
            f"{len(rows)} rows of {rows[0].file} apart; state a smaller fraction or more rows"
        )
    apart = set(random.Random(seed).sample(range(len(rows)), count))  # noqa: S311 - no secret
    return Data(
        len(rows),
        [row for place, row in enumerate(rows) if place not in apart],
        [row for place, row in enumerate(rows) if place in apart],
    )


def read(path: Path) -> list[ChatRow]:
    """Every row of a JSON lines file, checked.

    Raises:
        RefusalError: about the first row that is at fault, with the number of rows like it.
    """
    found = [(line, _object(path, line, raw)) for line, raw in _lines(path)]
    if not found:
        raise RefusalError(f"{path} holds no rows; {SHAPE}")
    faults = {number: fault for number, (_, row) in enumerate(found, 1) if (fault := _fault(row))}
    if faults:
        raise RefusalError(_sentence(path, faults, [line for line, _ in found]))
    return [
        ChatRow(
            str(path),
            number,
            [{"role": each["role"], "content": each["content"]} for each in row["messages"]],
        )
        for number, (_, row) in enumerate(found, 1)
    ]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number; a byte order mark is no text."""
    try:
        with path.open("rb") as file:
            for line, raw in enumerate(file, 1):
                text = raw.removeprefix(codecs.BOM_UTF8) if line == 1 else raw
                if text.strip():
                    yield line, text
    except FileNotFoundError:
        raise RefusalError(f"there is no file {path}; state a JSON lines file of rows") from None
    except OSError as error:
        raise RefusalError(f"{path} cannot be read: {error.strerror}") from None


def _object(path: Path, line: int, raw: bytes) -> Any:
    """The value that a line holds."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        raw.decode()
    except UnicodeDecodeError:
        raise RefusalError(f"line {line} of {path} is not UTF-8; save the file as UTF-8") from None
    raise RefusalError(f"line {line} of {path} is not JSON: {raw.decode()[:60]!r}; {SHAPE}")


def _fault(row: Any) -> Fault | None:
    """What is wrong with ``row``, if anything is."""
    if not isinstance(row, dict):
        return Fault("a row is no JSON object", "row", SHAPE)
    messages = row.get("messages")
    if "messages" not in row:
        return Fault("a row has no messages", f"its fields: {', '.join(row) or 'none'}", SHAPE)
    if not isinstance(messages, list):
        return Fault("messages is no list", "messages", SHAPE)
    if not messages:
        return Fault("messages is an empty list", "messages", SHAPE)
    found = (_message_fault(place, each) for place, each in enumerate(messages))
    return next((fault for fault in found if fault), None) or _ending_fault(messages)


def _message_fault(place: int, message: Any) -> Fault | None:
    """What is wrong with one message by itself."""
    where = f"messages[{place}]"
    if not isinstance(message, dict):
        return Fault("a message is no JSON object", where, SHAPE)
    if message.get("role") not in ROLES:
        said = f"{where}.role is {message.get('role')!r:.40}"
        return Fault("a role is unknown", said, f"the roles are {', '.join(ROLES)}")
    if message["role"] == "system" and place > 0:
        return Fault("a system message is not the first", where, "put it first or leave it out")
    if not isinstance(message.get("content"), str):
        said = f"{where}.content is {_kind(message.get('content'))}"
        return Fault("the content of a message is not text", said, "write it as one string")
    if message.get("tool_calls"):
        return Fault(
            "a message calls tools", f"{where}.tool_calls", "write the call as its content"
        )
    return None


def _ending_fault(messages: list[Message]) -> Fault | None:
    """An example ends with what the model is to learn: an answer."""
    last = messages[-1]["role"]
    if last == "assistant":
        return None
    return Fault(
        f"an example ends with a {last} message",
        f"messages[{len(messages) - 1}].role is {last!r}",
        "end every example with an assistant message",
    )


def _kind(value: Any) -> str:
    """What JSON calls the kind of ``value``."""
    names = {type(None): "null or absent", list: "a list", dict: "an object", bool: "a boolean"}
    return names.get(type(value), "a number")


def _sentence(path: Path, faults: dict[int, Fault], lines: list[int]) -> str:
    """The refusal of a file: its first fault, where, how often, and what to do."""
    number, first = next(iter(faults.items()))
    alike = sum(fault.sentence == first.sentence for fault in faults.values())
    line = "" if lines[number - 1] == number else f" on line {lines[number - 1]}"
    return (
        f"{first.sentence}: row {number}{line} of {path}, {first.where} "
        f"({alike} of {len(lines)} rows); {first.advice}"
    )
