"""Contexts: services that have a name, in ``config.toml`` of the home.

The file is the person's own: what they wrote into it, comments too, stays as it is.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import CommandError, Exit

LOCAL = "local"  # the name of the embedded server, which needs no entry
FILE = "config.toml"
_NAMES = {"url", "token_file", "platform_project"}


@dataclass(frozen=True)
class Context:
    """One service; without a URL it is the embedded server."""

    url: str | None = None
    token_file: Path | None = None
    platform_project: str | None = None  # whose Grafana its runs are looked at in


@dataclass(frozen=True)
class Contexts:
    """What the file says."""

    by_name: dict[str, Context]
    current: str  # that is used where nothing else is said


def chosen(home: Path, *, named: str | None, variable: str | None) -> Context:
    """The context that an option, else a variable, else the file names.

    Raises:
        CommandError: there is no such context, or the file cannot be read.
    """
    if not (named or variable or (home / FILE).exists()):
        return Context()
    known = read(home)
    name = named or variable or known.current
    return find(known, name, home)


def find(known: Contexts, name: str, home: Path) -> Context:
    """The context of this name.

    Raises:
        CommandError: there is none.
    """
    if name == LOCAL:
        return Context()
    if name not in known.by_name:
        names = ", ".join([LOCAL, *known.by_name])
        raise CommandError(
            f"there is no context {name!r} in {home / FILE}",
            Exit.USAGE,
            hint=f"there are {names}; `trainledger config set {name} --url URL` adds it",
        )
    return known.by_name[name]


def read(home: Path) -> Contexts:
    """What the file of ``home`` says; without a file there is the embedded server alone.

    Raises:
        CommandError: it cannot be read, or says what is not known.
    """
    import tomllib  # noqa: PLC0415 (most calls have no such file)

    file = home / FILE
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts({}, LOCAL)
    except ValueError as error:  # of TOML, or of UTF-8
        raise CommandError(f"{file} is not TOML: {error}", Exit.USAGE) from None
    known = _part(said.get("contexts", {}), f"contexts in {file}")
    _check(file, "a name", set(said), {"current", "contexts"})
    by_name = {name: _context(file, name, context) for name, context in known.items()}
    return Contexts(by_name, _text(said.get("current", LOCAL), f"current in {file}"))


def _context(file: Path, name: str, said: Any) -> Context:
    part = _part(said, f"the context {name} in {file}")
    _check(file, f"a name of the context {name}", set(part), _NAMES)
    for each, value in part.items():
        _text(value, f"{each} of the context {name} in {file}")
    token_file = part.get("token_file")
    return Context(
        part.get("url"),
        file.parent / Path(token_file).expanduser() if token_file else None,
        part.get("platform_project") or None,
    )


def _check(file: Path, what: str, names: set[str], known: set[str]) -> None:
    for name in sorted(names - known):
        raise CommandError(
            f"{name!r} in {file} is not {what}; known are {', '.join(sorted(known))}", Exit.USAGE
        )


def _part(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CommandError(f"{where} is {value!r}, expected a table", Exit.USAGE)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise CommandError(f"{where} is {value!r}, expected a text", Exit.USAGE)
    return value


def use(home: Path, name: str) -> None:
    """Have the context of this name used where nothing else is said.

    Raises:
        CommandError: there is no such context.
    """
    find(read(home), name, home)
    document = _document(home)
    document["current"] = name
    _write(home, document)


def put(home: Path, name: str, *, url: str | None, **more: str | None) -> Context:
    """Add a context, or change what is stated of one; an empty text takes what it had away.

    Args:
        home: the folder of the file.
        name: of the context.
        url: where its service is.
        more: its token_file and platform_project.

    Raises:
        CommandError: the name is taken by the embedded server, or no URL is known.
    """
    if name == LOCAL:
        raise CommandError(f"{LOCAL} is the server of this home, and is always there", Exit.USAGE)
    before = read(home).by_name.get(name, Context())
    if not (url or before.url):
        raise CommandError(f"the context {name} needs --url", Exit.USAGE)
    document = _document(home)
    entry = document.setdefault("contexts", {}).setdefault(name, {})
    if url:
        entry["url"] = url
    entry.update({each: text for each, text in more.items() if text is not None})
    _write(home, document)
    return read(home).by_name[name]


def _document(home: Path) -> Any:
    """The file as it is written, to be changed in places."""
    import tomlkit  # noqa: PLC0415 (only a change needs it)

    file = home / FILE
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return tomlkit.parse(text)


def _write(home: Path, document: Any) -> None:
    """Put the document in place in one move; only this account reads it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = home / f"{FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as text:
        text.write(document.as_string())
    fresh.replace(home / FILE)
