"""A proxy that now and then loses an answer: the request arrived, and nobody hears so."""

import http.client
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import urlsplit


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing: whoever asked was killed."""


class Proxy:
    """Hands deliveries on to wherever the server is now, at an address that never changes."""

    def __init__(self, rng: Random, upstream: Callable[[], str], *, loss: float) -> None:
        """``loss`` is the share of answers that are lost."""
        self.lost_answers = 0
        self._rng = rng
        self._upstream = upstream
        self._loss = loss
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop to listen."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._forward()

            def do_POST(self) -> None:
                self._forward()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    status, kind, content = proxy.ask(self.command, self.path, body, self.headers)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                if proxy.loses():
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(OSError):  # whoever asked may be gone
                    self.wfile.write(content)

        return Handler

    def ask(self, method: str, path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
        """The server's own answer."""
        connection = http.client.HTTPConnection(urlsplit(self._upstream()).netloc, timeout=10)
        try:
            passed = {
                name: headers[name]
                for name in ("Authorization", "Content-Type", "Accept")
                if name in headers
            }
            connection.request(method, path, body, passed)
            answer = connection.getresponse()
            kind = answer.headers.get("Content-Type", "application/json")
            return answer.status, kind, answer.read()
        finally:
            connection.close()

    def loses(self) -> bool:
        """Whether this answer is lost."""
        if self._rng.random() >= self._loss:
            return False
        self.lost_answers += 1
        return True
