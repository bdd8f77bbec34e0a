"""Faults of rows: what is wrong, where, how often, and what to do, in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.errors import RefusalError

_KINDS = {
    type(None): "null or absent",
    str: "a string",
    list: "a list",
    dict: "an object",
    bool: "a boolean",
}


class Fault(NamedTuple):
    """What is wrong with a row."""

    sentence: str  # the same for every row with this fault
    where: str  # the field, as the file has it
    advice: str


def refusal(file: str, faults: Mapping[int, Fault], lines: Sequence[int]) -> RefusalError:
    """The refusal of a file for its first fault.

    ``faults`` are by the number of the row, from 1; ``lines`` has the line of each row.
    """
    number = min(faults)
    first = faults[number]
    alike = sum(fault.sentence == first.sentence for fault in faults.values())
    line = "" if lines[number - 1] == number else f" on line {lines[number - 1]}"
    return RefusalError(
        f"{first.sentence}: row {number}{line} of {file}, {first.where} "
        f"({alike} of {len(lines)} rows); {first.advice}"
    )


def kind(value: Any) -> str:
    """What JSON calls the kind of ``value``."""
    return _KINDS.get(type(value), "a number")
