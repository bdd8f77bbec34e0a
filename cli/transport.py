"""How every HTTP connection of ours is made. Imports httpx2, which takes 0.2 s: load it late."""

import ssl
from typing import Any
from urllib.parse import urlsplit

import httpx2

HEALTH_SECONDS = 2.0
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def is_loopback(url: str) -> bool:
    """Whether ``url`` stays on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def options(url: str) -> dict[str, Any]:
    """Options for ``url``: no certificates are read for plain HTTP, and no proxy for loopback."""
    found: dict[str, Any] = {"trust_env": not is_loopback(url)}
    if urlsplit(url).scheme == "http":
        found["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return found


def is_healthy(url: str) -> bool:
    """Whether a server answers at ``url``."""
    try:
        answer = httpx2.get(f"{url}/healthz", timeout=HEALTH_SECONDS, **options(url))
    except httpx2.TransportError:
        return False
    return answer.status_code == 200
