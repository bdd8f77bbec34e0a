"""Who asks: a bearer token for people and programs, and one for the runner of each attempt."""

import hmac
import os
import secrets
from pathlib import Path

from fastapi import Request

from api.problems import UNAUTHORIZED, ProblemError

PRINCIPAL = "operator"  # the owner of the token file may do everything


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


def require(request: Request) -> str:
    """The principal who asks.

    Raises:
        ProblemError: the token is missing or wrong.
    """
    expected: str = request.app.state.service.token
    if not hmac.compare_digest(bearer(request).encode(), expected.encode()):
        raise ProblemError(
            UNAUTHORIZED,
            "the request carries no token that is known here",
            "send the token of the server's home folder: Authorization: Bearer …",
        )
    return PRINCIPAL
