"""Secrets: what is written for ever has none, so they are masked before an event is stored.

A secret is known by the name of what holds it (``api_key``, ``password``, ``hubToken``), or by its
place in a URL. Names that only sound alike keep their values: ``num_memory_tokens``, ``eos_token``.
"""

import json
import re
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

MASK = "***"
LONGEST = 200  # characters of a name that are looked at, from its end

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRETS = frozenset(
    {
        *("password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential"),
        *("credentials", "authorization", "auth", "apikey", "secretkey", "accesskey", "privatekey"),
    }
)  # last words of names
_KEYS = frozenset(
    {
        *("api", "access", "secret", "private", "account", "signing", "encryption", "ssh"),
        *("master", "shared", "service", "subscription"),
    }
)  # that open something; other keys are names
_TEXT_TOKENS = frozenset(
    {
        *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "audio", "video", "vision"),
        *("start", "end", "stop", "begin", "special", "per", "next", "last", "first", "new"),
    }
)  # kinds of tokens that text is made of
_SPECIAL = re.compile(r"<[^<>]*>|\[[A-Z_ ]+\]")  # how such a token is written: </s>, [PAD]
_SIGNED = frozenset({"signature", "sig"})  # in the query of a URL
_USER = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,30})://([^/\s?#\"']+)@")
_QUERY = re.compile(r"([?&;])([\w.-]+)=([^&;#\s\"']+)")
_PAIR = re.compile(  # of JSON, whose end may be cut off
    r'(?:^|(?<=[{,\s]))"((?:[^"\\]|\\.){0,200})"(\s{0,9}:\s{0,9})"((?:[^"\\]|\\.)*)("|$)'
)
_REPR = re.compile(  # the same of Python's own
    r"(?:^|(?<=[{,\s]))'((?:[^'\\]|\\.){0,200})'(\s{0,9}:\s{0,9})([\"'])((?:(?!\3)[^\\]|\\.)*)(\3|$)"
)
_QUOTED = re.compile(  # NAME = "value"
    r"(?<![\w?&;.-])([A-Za-z_][\w.-]*)(\s?=\s?)([\"'])((?:(?!\3)[^\\]|\\.)*)(\3|$)"
)
_HEADER = re.compile(r"(authorization\s?:\s?(?:bearer|basic|token)\s)([^\s\"',;]+)", re.IGNORECASE)
_OURS = re.compile(r"\btlk_[\w-]{20,}")  # a token of this service: ledger/tokens.py
_STATED = re.compile(r"(?<![\w?&;.-])([A-Za-z_][\w.-]*)=([^\s,;&\"'()\[\]{}]+)")  # NAME=value


def masked(value: Any) -> Any:
    """``value`` with a mask in the place of each secret."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {name: _under(name, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(masked(each) for each in value)
    if isinstance(value, BaseModel):
        return value.model_copy(update=masked(dict(value)))
    return value


def text(said: str) -> str:
    """A text without what its URLs, JSON, assignments and headers hold of secrets."""
    said = address(said)
    if "=" in said:
        said = _QUOTED.sub(_without_quoted, _STATED.sub(_without_statement, said))
    if '"' in said:
        said = _PAIR.sub(_without_member, said)
    if "'" in said:
        said = _REPR.sub(_without_item, said)
    return _OURS.sub(f"tlk_{MASK}", _HEADER.sub(rf"\g<1>{MASK}", said))


def address(said: str) -> str:
    """A text without what its URLs hold of secrets."""
    if "@" in said:
        said = _USER.sub(_without_user, said)
    return _QUERY.sub(_without_signature, said) if "=" in said else said


def line(said: str) -> str:
    """A line that should be JSON, as it is where it has no secret."""
    try:
        value = json.loads(said)
        clean = masked(value)
        return text(said if clean == value else json.dumps(clean, ensure_ascii=False))
    except (ValueError, RecursionError):
        return text(said)


def is_secret(name: str) -> bool:
    """Whether what has this name is nobody's business."""
    words = _words(name[-LONGEST:])
    if not words or words == ("pwd",):  # a folder, in every environment
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return before not in _TEXT_TOKENS
    return last in _SECRETS or (last == "key" and before in _KEYS)


def secret_argument(arguments: tuple[str, ...]) -> int | None:
    """The place, from 1, of the first argument of a command that is or holds a secret."""
    for place, argument in enumerate(arguments, start=1):
        name = argument.lstrip("-")
        if text(name) != name:
            return place
        follows = arguments[place] if place < len(arguments) else "-"
        if name != argument and is_secret(name) and not follows.startswith("-"):
            return place + 1
    return None


def _under(name: Any, value: Any) -> Any:
    """What stands under ``name``, masked as a whole where the name says that it is a secret."""
    if not is_secret(str(name)):
        return masked(value)
    return _hidden(value, is_token=_words(str(name)[-LONGEST:])[-1] == "token")


def _hidden(value: Any, *, is_token: bool) -> Any:
    """A mask for every text and number in ``value``; a number of a token is its place in a list."""
    if isinstance(value, dict):
        return {name: _hidden(each, is_token=is_token) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_hidden(each, is_token=is_token) for each in value)
    if value in (None, "") or isinstance(value, (bool, float)):
        return value
    if is_token and (not isinstance(value, str) or _SPECIAL.fullmatch(value)):
        return value
    return MASK


def _without_user(found: "re.Match[str]") -> str:
    scheme, user = found.groups()
    is_login = scheme.endswith("ssh") and ":" not in user
    return found[0] if is_login else f"{scheme}://{MASK}@"


def _without_signature(found: "re.Match[str]") -> str:
    mark, name, value = found.groups()
    is_signed = bool(_SIGNED.intersection(_words(name[-LONGEST:])[-1:]))
    return f"{mark}{name}={MASK}" if is_signed or _tells(name, value) else found[0]


def _without_statement(found: "re.Match[str]") -> str:
    name, value = found.groups()
    return f"{name}={MASK}" if _tells(name, value) else found[0]


def _without_member(found: "re.Match[str]") -> str:
    name, between, value, end = found.groups()
    return f'"{name}"{between}"{MASK}{end}' if _tells(name, value) else found[0]


def _without_quoted(found: "re.Match[str]") -> str:
    name, between, mark, value, end = found.groups()
    return f"{name}{between}{mark}{MASK}{end}" if _tells(name, value) else found[0]


def _without_item(found: "re.Match[str]") -> str:
    name, between, mark, value, end = found.groups()
    return f"'{name}'{between}{mark}{MASK}{end}" if _tells(name, value) else found[0]


def _tells(name: str, value: str) -> bool:
    """Whether a text that stands under ``name`` is a secret."""
    return is_secret(name) and _under(name, value) != value


@lru_cache(maxsize=4_096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(each.lower() for each in _WORDS.findall(name))
