"""Plan files and override documents: JSON or YAML, with the paths in them made absolute."""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from cli.errors import CommandError, Exit
from cli.wire import Json

MARK = "dataset:"  # before what names a data set of the catalogue, and no file
_PATHS = (("baseModel",), ("dataset",), ("validation", "dataset"), ("engine", "directory"))


def read(where: str) -> Json:
    """The plan in the file ``where``, or on stdin for ``-``, with absolute paths.

    Raises:
        CommandError: it cannot be read, or is neither JSON nor YAML.
    """
    plan, folder = _mapping(where, f"the plan {where}", command="runs start")
    engine = plan.get("engine")
    if isinstance(engine, dict) and "command" in engine:
        engine.setdefault("directory", str(folder))  # where a command starts too
    return plan


def read_overrides(where: str) -> Json:
    """The fields of a plan that are to be different, from a file or stdin, with absolute paths.

    Raises:
        CommandError: they cannot be read, or are neither JSON nor YAML.
    """
    overrides, _ = _mapping(where, f"the override document {where}", command="runs branch")
    return overrides


def _mapping(where: str, what: str, *, command: str) -> tuple[Json, Path]:
    """A document, whose paths are absolute, and its folder; ``what`` names it in errors."""
    text, folder = _text(where, what)
    document = _document(text.removeprefix("\ufeff"), what)
    if not isinstance(document, dict):
        raise CommandError(
            f"{what} is no mapping of fields",
            Exit.USAGE,
            hint=f"see `trainledger {command} --help`",
        )
    return absolute(document, folder), folder


def absolute(document: Json, folder: Path) -> Json:
    """``document`` with its relative paths put under ``folder``."""
    for *outer, name in _PATHS:
        part: Any = document
        for key in outer:
            part = part.get(key) if isinstance(part, dict) else None
        if isinstance(part, dict) and _is_relative(part.get(name), folder):
            part[name] = os.path.normpath(folder / part[name])
    return document


def rows_of(dataset: str) -> str:
    """Rows that somebody names on the command line: a file, or a data set of the catalogue."""
    is_named = dataset.startswith(MARK) and not os.path.exists(dataset)  # noqa: PTH110  any text
    return dataset if is_named else os.path.abspath(dataset)  # noqa: PTH100  any text


def _is_relative(path: object, folder: Path) -> bool:
    """Whether ``path`` is meant from ``folder``: it says so with a dot, or it is there.

    Anything else is left alone: it may be the name of a model on a hub.
    """
    if not isinstance(path, str) or "\0" in path:
        return False
    says_so = path in (".", "..") or path.startswith(("./", "../"))
    return says_so or os.path.exists(folder / path)  # noqa: PTH110  any text at all may be a name


def _text(where: str, what: str) -> tuple[str, Path]:
    try:
        if where == "-":
            return sys.stdin.buffer.read().decode(), Path.cwd()
        return Path(where).read_text(encoding="utf-8"), Path(where).absolute().parent
    except UnicodeDecodeError:
        raise CommandError(f"{what} is not UTF-8 text", Exit.USAGE) from None
    except OSError as error:
        raise CommandError(f"{what} cannot be read: {error.strerror}", Exit.USAGE) from None


def _document(text: str, what: str) -> Any:
    try:
        return _finite(json.loads(text))
    except (ValueError, RecursionError):
        pass
    from cli.yaml_text import load  # noqa: PLC0415 (only plans that are not JSON need yaml)

    document = _finite(load(text, what))
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(
            f"{what} holds something that JSON cannot say: {error}", Exit.USAGE
        ) from None
    return document


def _finite(node: Any) -> Any:
    """``node`` with numbers that are not finite as the strings that the wire uses."""
    if isinstance(node, dict):
        return {name: _finite(each) for name, each in node.items()}
    if isinstance(node, list):
        return [_finite(each) for each in node]
    if isinstance(node, float) and not math.isfinite(node):
        return "NaN" if math.isnan(node) else "Infinity" if node > 0 else "-Infinity"
    return node
