"""What a request brings: its token, and the name that it was sent to; and files of tokens."""

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.problems import FOREIGN_HOST, document
from api.settings import LOOPBACK

PRINCIPAL = "operator"  # the owner of the home: whoever can read its token file


def token_file(path: Path) -> str:
    """The token that ``path`` holds; a new one, for its owner's eyes only, where there is none."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text("ascii").strip()
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        token = secrets.token_urlsafe(32)
        file.write(token + "\n")
        file.flush()
        os.fsync(descriptor)
    return token


def bearer(request: Request) -> str:
    """The token that the request carries; empty where it carries none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class OwnNames:
    """Refuses what was addressed to another name: a page led here by a false DNS answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer only what was sent to this machine's own names."""
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else "localhost"
        if _name(host) in LOOPBACK:
            await self._app(scope, receive, send)
            return
        refusal = document(FOREIGN_HOST, Request(scope), f"{host[:80]!r} is no name of this server")
        await refusal(scope, receive, send)


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
