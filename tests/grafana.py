"""A door of Grafana's: a real HTTP server that lets in whoever its ``[auth.jwt]`` would.

Source: Grafana, pkg/services/auth/jwt and pkg/services/authn/clients/jwt.go: the key of a PEM file
fits tokens that name no key; the signature counts, then ``exp`` and ``iat``, with a minute for
clocks that differ, then what is expected of other claims; a ``sub`` there must be.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

LEEWAY = timedelta(minutes=1)
EXPECTED = {"iss": "trainledger"}
ORGANISATIONS = {"research": "Research", "shop": "The shop"}  # org_mapping, by the claim project


@dataclass
class Door:
    """Where Grafana is, whose key it knows, and what time it is there."""

    public_key: bytes
    clock: Callable[[], datetime]
    url: str = ""

    def let_in(self, token: str) -> dict[str, Any] | None:
        """Who has come, with which role in which organisation; None: nobody that is known."""
        try:
            named = "kid" in jwt.get_unverified_header(token)
            options: Any = {"verify_exp": False, "verify_iat": False}
            claims = jwt.decode(token, self.public_key, ["ES256"], options)
        except jwt.InvalidTokenError:
            return None
        now = self.clock()
        is_time = claims["iat"] <= (now + LEEWAY).timestamp()
        is_time &= claims["exp"] >= (now - LEEWAY).timestamp()
        is_expected = all(claims.get(name) == value for name, value in EXPECTED.items())
        if named or not (is_time and is_expected and claims["sub"]):
            return None
        organisation = ORGANISATIONS[claims["project"]]
        return {"login": claims["sub"], "role": claims["role"], "organisation": organisation}


def write_key(place: Path, curve: ec.EllipticCurve | None = None) -> bytes:
    """Put a private key into a file, as OpenSSL would; its public part is what Grafana gets."""
    private = ec.generate_private_key(curve or ec.SECP256R1())
    place.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@contextmanager
def opened(door: Door) -> Iterator[Door]:
    """The door, which anybody on this machine can knock at until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            who = door.let_in(query.pop("auth_token", ""))
            self.send_response(401 if who is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"path": parts.path, "who": who, **query}).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    door.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield door
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
