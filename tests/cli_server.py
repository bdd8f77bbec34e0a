"""A real HTTP server in a thread that serves canned answers, so that the CLI runs as a process.

Each request is kept in ``requests``. A stream is a list of openings: what the first connection to
it gets, what the second, and so on; the last opening is repeated.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests import inside

ROOT = Path(__file__).parent.parent
RUN = "0123456789abcdef"
TOKEN = "a-token"

Json = dict[str, Any]
Answer = tuple[int, Any]


@dataclass(frozen=True)
class Request:
    """What the CLI asked."""

    method: str
    path: str
    parameters: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Opening:
    """What one connection to a stream gets: lines, then its end.

    ``end``: "close" ends it in order, "cut" in the middle of a line, "hold" says nothing more until
    the server is closed.
    """

    lines: tuple[Json | str, ...]
    end: str = "close"


@dataclass
class CannedServer:
    """Answers by method and path; an answer may be a function of the request."""

    url: str = ""
    answers: dict[tuple[str, str], Answer | Callable[[Request], Answer | None]] = field(
        default_factory=dict
    )
    streams: dict[str, list[Opening]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    opened: "queue.Queue[Request]" = field(default_factory=queue.Queue)

    def answer(self, method: str, path: str, body: Any, status: int = 200) -> None:
        """Answer ``method path`` with ``body`` from now on."""
        self.answers[method, path] = (status, body)

    def stream(self, run_id: str, *openings: Opening) -> None:
        """Serve these openings of the run's events, one after the other."""
        self.streams[f"/v1/runs/{run_id}/events"] = list(openings)

    def asked(self, method: str, path: str) -> list[Request]:
        """The requests that came for ``method path``."""
        return [each for each in self.requests if (each.method, each.path) == (method, path)]


def problem(slug: str, detail: str, status: int, **more: Any) -> Json:
    """A problem document as the service writes it."""
    return {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": detail, **more}


@contextmanager
def canned_server() -> Iterator[CannedServer]:
    """A server on a free port of loopback, until the end of the block."""
    canned = CannedServer()

    class Handler(_Handler):
        server_state = canned

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    canned.url = f"http://127.0.0.1:{server.server_port}"
    canned.answer("GET", "/healthz", {"ok": True})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield canned
    finally:
        canned.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: CannedServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        request = self._request()
        state = self.server_state
        state.requests.append(request)
        openings = state.streams.get(request.path)
        if openings:
            self._stream(openings.pop(0) if len(openings) > 1 else openings[0])
            return
        answer = state.answers.get((request.method, request.path))
        if callable(answer):
            answer = answer(request)
            if answer is None:  # the answer is lost on the way
                self.close_connection = True
                return
        status, body = answer or (404, problem("not-found", f"no {request.path} here", 404))
        self._send(status, body)

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Request(
            self.command,
            parts.path,
            parse_qs(parts.query),
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(text) if text else None,
        )

    def _send(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        kind = "application/problem+json" if status >= 400 else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, opening: Opening) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/jsonl")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in opening.lines:
            text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
            self._chunk(f"{text}\n".encode())
        self.close_connection = True
        if opening.end == "hold":
            self.server_state.closed.wait(30)
        elif opening.end == "cut":
            self._chunk(b'{"position": 999, "kind": "stepRep')
        else:
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def environment(url: str | None, **more: str) -> dict[str, str]:
    """The environment of a CLI process that talks to ``url`` and to nothing of this account."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    stated = {"PYTHONPATH": str(ROOT), "TRAINLEDGER_HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    where = {"TRAINLEDGER_URL": url, "TRAINLEDGER_TOKEN": TOKEN} if url else {}
    return kept | stated | where | more


def command(*arguments: str) -> list[str]:
    """The command line of the CLI."""
    return [sys.executable, "-m", "cli.main", *arguments]


def here(
    *arguments: str, url: str | None, stdin: str = "", **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run the CLI in this process."""
    return inside.run(arguments, environment(url, **more), stdin)


def trainledger(
    *arguments: str, url: str | None, stdin: str | None = None, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run the CLI to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(url, **more),
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
