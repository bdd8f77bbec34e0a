"""A resolved plan as YAML, with a mark on what its author stated. Imports yaml: load it late."""

from collections.abc import Iterator
from typing import Any

import yaml

from cli.render.text import plain
from cli.wire import Json

_MARK = "  # stated"


def resolved_plan(resolved: Json, stated: list[str]) -> str:
    """The plan with every default filled in, one field a line."""
    return "\n".join(_mapping(resolved, frozenset(stated), path="", indent="")) + "\n"


def _mapping(part: Json, stated: frozenset[str], *, path: str, indent: str) -> Iterator[str]:
    for name, each in part.items():
        below = f"{path}{name}"
        mark = _MARK if below in stated else ""
        if isinstance(each, dict) and each:
            yield f"{indent}{_scalar(name)}:{mark}"
            yield from _mapping(each, stated, path=f"{below}.", indent=f"{indent}  ")
        else:
            yield f"{indent}{_scalar(name)}: {_flow(each)}{mark}"


def _flow(node: Any) -> str:
    """A value on one line; a list of mappings in YAML's flow form."""
    if isinstance(node, list):
        return f"[{', '.join(_flow(each) for each in node)}]"
    if isinstance(node, dict):
        return (
            "{" + ", ".join(f"{_scalar(name)}: {_flow(each)}" for name, each in node.items()) + "}"
        )
    return _scalar(node)


def _scalar(value: Any) -> str:
    """A single value; text that could be mistaken for something else is quoted and escaped."""
    readable = isinstance(value, str) and plain(value) == value
    dumped: str = yaml.safe_dump(
        value, width=float("inf"), allow_unicode=readable, default_flow_style=True
    )
    line = dumped.removesuffix("\n").removesuffix("\n...")
    if "\n" in line or (isinstance(value, str) and (set(value) & set(",[]{}"))):
        line = yaml.safe_dump(
            value, width=float("inf"), default_style='"', allow_unicode=readable
        ).removesuffix("\n")
    return line
