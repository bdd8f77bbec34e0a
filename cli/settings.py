"""Settings of one call: options over environment over context over defaults.

The only place that reads the environment. A context that an option names goes before the
environment, as every option does; the environment's own URL and token then play no part.
"""

import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cli import contexts
from cli.contexts import Context
from cli.errors import CommandError, Exit
from cli.options import PageMode

CLIENT_ONLY = (
    "TRAINLEDGER_URL",
    "TRAINLEDGER_TOKEN",
    "TRAINLEDGER_CONTEXT",
    "TRAINLEDGER_PLATFORM_PROJECT",
    "TRAINLEDGER_DISABLE_PROMPTS",
)

COMPLETE = "_TRAINLEDGER_COMPLETE"  # in which a shell's script says what it wants to know

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h|d|)$")
_REQUEST_TIMEOUT = "10s"


@dataclass(frozen=True)
class Given:
    """What the options of a call say; None: nothing."""

    url: str | None = None
    token: str | None = None
    named: str | None = None  # the context
    request_timeout: str | None = None
    quiet: bool = False
    no_color: bool = False
    disable_prompt: bool = False
    page_mode: PageMode | None = None
    verbose: bool = False


@dataclass(frozen=True)
class Settings:
    """How this call reaches the service, and how it talks."""

    url: str | None  # None: the embedded server of ``home``
    token: str | None  # None: that of the token file, else the one of ``home``
    home: Path
    request_timeout: float  # seconds for one answer; a followed stream has its own rule
    quiet: bool
    color: bool
    prompts: bool
    verbose: bool
    token_file: Path | None = None  # of the context
    platform_project: str | None = None  # of the context


def resolve(given: Given) -> Settings:
    """The settings of a call.

    Raises:
        CommandError: an option, a variable or the file of contexts says what cannot be.
    """
    url, token, context = _target(given)
    return Settings(
        url=url,
        token=token,
        home=home(),
        request_timeout=seconds(given.request_timeout or _REQUEST_TIMEOUT, "--request-timeout"),
        quiet=given.quiet,
        color=not (given.no_color or no_color()),
        prompts=not given.disable_prompt,
        verbose=given.verbose,
        token_file=context.token_file,
        platform_project=context.platform_project,
    )


def _target(given: Given) -> tuple[str | None, str | None, Context]:
    """Where the service is, the token to show it, and the context that is used for the rest.

    The token of a context is shown to the service of that context, and to no other.
    """
    variable = os.environ.get
    context = contexts.chosen(home(), named=given.named, variable=variable("TRAINLEDGER_CONTEXT"))
    if given.named:
        stated_url, stated_token = given.url, given.token
    else:
        stated_url = given.url or variable("TRAINLEDGER_URL")
        stated_token = given.token or variable("TRAINLEDGER_TOKEN")
    if stated_url:
        context = Context()
    return address(stated_url or context.url), stated_token or None, context


def platform_project(call: Settings, stated: str | None) -> tuple[str, str]:
    """The platform project of a call, and what says it: an option, the environment, the context.

    Raises:
        CommandError: nothing says it.
    """
    variable = "TRAINLEDGER_PLATFORM_PROJECT"
    said = {
        "--platform-project": stated,
        variable: os.environ.get(variable),
        "the context": call.platform_project,
    }
    for where, name in said.items():
        if name:
            return name, where
    raise CommandError(
        "no platform project is said",
        Exit.USAGE,
        hint=f"say it with --platform-project, with {variable}, or for a context with "
        "`trainledger config set NAME --platform-project PROJECT`",
    )


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
    """The folder of the embedded server, and of the file of contexts."""
    return Path(os.environ.get("TRAINLEDGER_HOME") or "~/.trainledger").expanduser().absolute()


def no_color() -> bool:
    """Whether the environment asks for plain text."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def columns() -> int | None:
    """The width that the environment states, if it does."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else None


def completing() -> str | None:
    """What a shell wants to know of a line that it is about to complete, if one does."""
    return os.environ.get(COMPLETE)


def pager() -> str:
    """The command of the person's pager; an empty one means none."""
    return os.environ.get("PAGER", "less")


def pager_environment(*, may_end_at_once: bool) -> dict[str, str]:
    """The environment of a pager: ours, and how less behaves where nothing else is said.

    Args:
        may_end_at_once: it ends by itself when the text fits on the screen.
    """
    return {"LESS": "FRX" if may_end_at_once else "RX"} | os.environ


def server_environment(where: Path) -> dict[str, str]:
    """The environment of an embedded server: ours, less what only clients read."""
    environment = tool_environment()
    environment["TRAINLEDGER_HOME"] = str(where)
    root = Path(__file__).parent.parent
    if root != Path(sysconfig.get_path("purelib")):  # a checkout that nobody installed
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def tool_environment() -> dict[str, str]:
    """The environment of a program of somebody else's: ours, less what only clients read."""
    return {name: value for name, value in os.environ.items() if name not in CLIENT_ONLY}


def server_command() -> list[str]:
    """The command that runs a server; -P keeps a folder ``api`` of the user's own out of it."""
    return [sys.executable, "-P", "-m", "api"]


def offline_command() -> list[str]:
    """The command that changes a home in which no server works."""
    return [sys.executable, "-P", "-m", "api.offline"]


def follow_command() -> list[str]:
    """The command that keeps a DuckDB file at the end of a ledger."""
    return [sys.executable, "-P", "-m", "projections.follow_file"]
