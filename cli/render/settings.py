"""The settings of a run in their five groups, with a mark on what the plan itself stated."""

from collections.abc import Iterator
from typing import Any

from cli.progress import TERMINAL
from cli.render.text import cells, plain, value, wrap
from cli.wire import Json

_GROUPS = (
    ("Configuration", "configuration", "config."),
    ("Hyperparameters", "hyperparameters", None),
    ("Engine settings", "engineSettings", None),
    ("Runtime", "runtime", "execution."),
    ("Run settings", "run", ""),
)
_NAME_COLUMNS = 40
_INDENT = " " * 6  # of a value that stands below its name

Leaf = tuple[str, Any]


def settings(record: Json, width: int | None, *, attempt: int | None = None) -> str:
    """The part Settings; a star marks what the plan stated, the rest was filled in.

    ``attempt``: whose settings the record has, where somebody asked for them.
    """
    groups, stated = record.get("settings") or {}, set(_stated(record))
    whose = "" if attempt is None else f" of attempt {attempt}"
    lines = [f"Settings{whose} (* stated by the plan)"]
    absent = "not reported" if record.get("phase") in TERMINAL else "not reported yet"
    for title, name, prefix in _GROUPS:
        lines.append(f"  {title}")
        group = groups.get(name)
        if not group:
            lines.append(f"    {absent}" if group is None else "    none")
            continue
        named = list(leaves(group))
        space = min(max(len(plain(leaf)) for leaf, _ in named), _NAME_COLUMNS)
        for leaf, each in named:
            star = "*" if prefix is not None and _is_stated(f"{prefix}{leaf}", stated) else " "
            lines.append(_line(leaf, each, star, space=space, width=width))
    return "\n".join(lines) + "\n"


def _stated(record: Json) -> list[str]:
    return record.get("stated") or (record.get("settings") or {}).get("stated") or []


def _is_stated(path: str, stated: set[str]) -> bool:
    """Whether the plan stated ``path``, or the mapping that it lies in."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in stated for end in range(1, len(parts) + 1))


def leaves(group: Json, prefix: str = "") -> Iterator[Leaf]:
    """Dotted names with their values, in the order of the document."""
    for name, each in group.items():
        if isinstance(each, dict) and each:
            yield from leaves(each, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", each


def _line(leaf: str, each: Any, star: str, *, space: int, width: int | None) -> str:
    text = f"  {star} {plain(leaf):<{space}}  {value(each)}"
    if width is None or cells(text) <= width:
        return text
    wrapped = wrap(value(each), width - len(_INDENT))
    return "\n".join([f"  {star} {plain(leaf)}", *(f"{_INDENT}{line}" for line in wrapped)])
