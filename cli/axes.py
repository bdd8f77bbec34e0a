"""Axes of a sweep: fields of the plan with the values that they take, and every combination."""

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

from cli.errors import CommandError, Exit
from cli.wire import Json

EXAMPLE = "write for example --axis config.learningRate=1e-4,2e-4"


@dataclass(frozen=True)
class Axis:
    """One field of the plan, by its dotted name, and the values that it takes."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One combination: what each axis says there, and the document that says all of it."""

    values: Json  # by the name of the axis
    overrides: Json

    @property
    def label(self) -> str:
        """The combination in words, the same for equal values however they were written."""
        return ", ".join(f"{name}={shown(each)}" for name, each in self.values.items())


def shown(value: Any) -> str:
    """A value of an axis in words."""
    return value if isinstance(value, str) else json.dumps(value)


def axes(texts: Sequence[str]) -> list[Axis]:
    """The axes that options say as ``NAME=VALUE,VALUE``.

    Raises:
        CommandError: one says no name or no value, a value twice, or a field that another has.
    """
    found: list[Axis] = []
    for text in texts:
        stated, _, said = text.partition("=")
        if not all(stated.split(".")) or not said.strip():
            raise CommandError(f"--axis {text} is no field with values", Exit.USAGE, hint=EXAMPLE)
        name, values = _full_name(stated), _values(said)
        twice = next((each for i, each in enumerate(values) if each in values[:i]), None)
        if twice is not None:
            raise CommandError(f"--axis {name} has the value {shown(twice)} twice", Exit.USAGE)
        clash = next((each.name for each in found if _meet(each.name, name)), None)
        if clash is not None:
            raise CommandError(f"--axis {clash} and --axis {name} set one field", Exit.USAGE)
        found.append(Axis(name, values))
    return found


def _full_name(stated: str) -> str:
    """The dotted name in a plan; one without a dot is of the configuration."""
    return stated if "." in stated or stated == "dataset" else f"config.{stated}"


def _values(text: str) -> tuple[Any, ...]:
    """What stands between the commas: each is JSON, or else it is text."""
    try:
        return tuple(_json(f"[{text}]"))
    except ValueError:
        return tuple(_value(each.strip()) for each in text.split(","))


def _value(text: str) -> Any:
    try:
        return _json(text)
    except ValueError:
        return text


def _json(text: str) -> Any:
    """What JSON says; numbers that are not finite stay text, as on our wire."""
    return json.loads(text, parse_constant=str, parse_float=_number)


def _number(text: str) -> float | str:
    return value if math.isfinite(value := float(text)) else text


def _meet(one: str, other: str) -> bool:
    """Whether two names are of one field, or one of them lies in the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def points(of: Sequence[Axis], overrides: Json) -> list[Point]:
    """Every combination, the last axis fastest, each over what ``overrides`` says anyway.

    Raises:
        CommandError: the overrides say what an axis says.
    """
    found = []
    for values in product(*(axis.values for axis in of)):
        chosen = dict(zip((axis.name for axis in of), values, strict=True))
        document = deepcopy(overrides)
        for name, value in chosen.items():
            _set(document, name, value)
        found.append(Point(chosen, document))
    return found


def _set(document: Json, name: str, value: Any) -> None:
    """Put ``value`` in the place that a dotted name has."""
    *outer, last = name.split(".")
    part: Any = document
    for each in outer:
        part = part.setdefault(each, {}) if isinstance(part, dict) else None
    if not isinstance(part, dict) or last in part:
        raise CommandError(f"--axis {name} is in the override document as well", Exit.USAGE)
    part[last] = value
