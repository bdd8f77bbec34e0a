"""Kinds of members that a record has, as JSON Schema; each says what it means, and its unit."""

from collections.abc import Iterable
from typing import Any

Node = dict[str, Any]


def of_type(kind: str, says: str, *, null: bool = False, **more: Any) -> Node:
    """A member of one JSON type, or null."""
    return {"description": says, "type": [kind, "null"] if null else kind, **more}


def text(says: str, *, null: bool = False) -> Node:
    """A text."""
    return of_type("string", says, null=null)


def count(says: str, *, null: bool = False, least: int = 0) -> Node:
    """A whole number from ``least``."""
    return of_type("integer", says, null=null, minimum=least)


def share(says: str, *, null: bool = False) -> Node:
    """A number from 0 to 1."""
    return of_type("number", says, null=null, minimum=0, maximum=1)


def amount(says: str, *, null: bool = False) -> Node:
    """A number from 0."""
    return of_type("number", says, null=null, minimum=0)


def flag(says: str) -> Node:
    """A truth."""
    return of_type("boolean", says)


def one_of(says: str, names: Iterable[str], *, null: bool = False) -> Node:
    """One of these words."""
    return {"description": says, "enum": [*names, *([None] if null else [])]}


def named(says: str, name: str, *, null: bool = False) -> Node:
    """One of the definitions."""
    found = {"$ref": f"#/$defs/{name}"}
    return (
        {"description": says, "anyOf": [found, {"type": "null"}]}
        if null
        else ({"description": says, **found})
    )


def number(says: str, *, null: bool = False) -> Node:
    """A number that may not be finite."""
    return named(says, "number", null=null)


def moment(says: str, *, null: bool = False) -> Node:
    """A time."""
    return named(says, "moment", null=null)


def part(says: str, members: Node, *, null: bool = False) -> Node:
    """A part with these members, which it always has, and no others."""
    return of_type(
        "object",
        says,
        null=null,
        properties=members,
        required=list(members),
        additionalProperties=False,
    )


def names(says: str, values: Node | bool, *, null: bool = False, **more: Any) -> Node:
    """Names that nobody knows beforehand."""
    return of_type("object", says, null=null, additionalProperties=values, **more)


def rows(says: str, items: Node, **more: Any) -> Node:
    """A list."""
    return of_type("array", says, items=items, **more)
