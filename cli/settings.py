"""Settings of one call: flags over environment over defaults. The only place that reads either."""

import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cli.errors import CommandError, Exit

CLIENT_ONLY = ("TRAINLEDGER_URL", "TRAINLEDGER_TOKEN", "TRAINLEDGER_DISABLE_PROMPTS")

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h|d|)$")


@dataclass(frozen=True)
class Settings:
    """How this call reaches the service, and how it talks."""

    url: str | None  # None: the embedded server of ``home``
    token: str | None  # None: the token file of ``home``
    home: Path
    request_timeout: float  # seconds for one answer; a followed stream has its own rule
    quiet: bool
    color: bool
    prompts: bool
    verbose: bool


def seconds(text: str, name: str) -> float:
    """Seconds of a duration such as ``90s``, ``10m`` or ``2h``; a plain number is seconds.

    Raises:
        CommandError: ``text`` is no duration; the sentence names the option ``name``.
    """
    found = _DURATION.match(text.strip())
    if not found:
        raise CommandError(
            f"{name} is {text!r}, which is no duration; write for example 30s, 10m or 2h",
            Exit.USAGE,
        )
    return float(found[1]) * _UNITS[found[2]]


def address(url: str | None) -> str | None:
    """The URL of the service, if one is stated.

    Raises:
        CommandError: it is no HTTP address.
    """
    if not url:
        return None
    if not _is_address(url):
        raise CommandError(f"--url is {url!r}, expected http:// or https:// and a host", Exit.USAGE)
    return url.rstrip("/")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half an IPv6 address, or a port that is no number
        return False


def home() -> Path:
    """The folder of the embedded server."""
    return Path(os.environ.get("TRAINLEDGER_HOME") or "~/.trainledger").expanduser().absolute()


def no_color() -> bool:
    """Whether the environment asks for plain text."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def columns() -> int | None:
    """The width that the environment states, if it does."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else None


def server_environment(where: Path) -> dict[str, str]:
    """The environment of an embedded server: ours, less what only clients read."""
    environment = {name: value for name, value in os.environ.items() if name not in CLIENT_ONLY}
    environment["TRAINLEDGER_HOME"] = str(where)
    root = Path(__file__).parent.parent
    if root != Path(sysconfig.get_path("purelib")):  # a checkout that nobody installed
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def server_command() -> list[str]:
    """The command that runs a server; -P keeps a folder ``api`` of the user's own out of it."""
    return [sys.executable, "-P", "-m", "api"]
