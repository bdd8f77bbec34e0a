"""The configuration of a run's engine: what was requested, and what it was resolved to."""

from typing import Any

from cli.render.part import part
from cli.render.settings import leaves
from cli.render.table import Column, table
from cli.render.text import cells, plain, value
from cli.wire import Json

_COLUMNS = (Column("setting"), Column("requested"), Column("resolved"))
_NOTHING = object()


def engine_config(answer: Json, *, width: int | None) -> str:
    """Each requested setting; a second value only where the engine resolved it differently.

    Where the terminal is too narrow for three columns, it stands below the first one.
    """
    resolved = answer["resolved"]
    rows = [
        [name, value(each), _otherwise(each, _found(resolved, name.split(".")))]
        for name, each in leaves(answer["requested"])
    ]
    if not rows:
        return "nothing was requested of the engine\n"
    shown = table(_COLUMNS, rows, width)
    if width is None or max(map(cells, shown.split("\n"))) <= width:
        return shown
    named = (
        (plain(name), f"{said}\nresolved to {otherwise}" if otherwise else said)
        for name, said, otherwise in rows
    )
    return part("Requested", named, width)


def _otherwise(requested: Any, resolved: Any) -> str:
    """What it was resolved to, where that is known and reads as something else."""
    if resolved is _NOTHING or _are_equal(requested, resolved):
        return ""
    return "" if value(resolved) == value(requested) else value(resolved)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether JSON values are the same; true is no number."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _found(part: Any, path: list[str]) -> Any:
    """The value at a dotted name; names may have dots themselves."""
    for end in range(len(path), 0, -1):
        name = ".".join(path[:end])
        if isinstance(part, dict) and name in part:
            return _found(part[name], path[end:]) if path[end:] else part[name]
    return _NOTHING
