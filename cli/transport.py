"""How every HTTP client of ours is made."""

from typing import Any
from urllib.parse import urlsplit

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def is_loopback(url: str) -> bool:
    """Whether ``url`` stays on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def options(url: str) -> dict[str, Any]:
    """Options for ``url``: no certificates are read for plain HTTP, and no proxy for loopback."""
    import ssl

    found: dict[str, Any] = {"trust_env": not is_loopback(url)}
    if urlsplit(url).scheme == "http":
        found["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return found
