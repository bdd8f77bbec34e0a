"""A real small HTTP server that takes reports as the product's own does, and can misbehave."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class FakeIngest:
    """Remembers the lines of one attempt. Its attributes say how it answers."""

    def __init__(self, home: Path, *, token: str = "a-token") -> None:
        self.home = home
        self.token = token
        self.request: str | None = None  # "stop" or "pause"
        self.withdraw_after: str | None = None  # the request ends with a line of this kind
        self.closed = False
        self.gone = False  # 410 to everything
        self.refuse_with: int | None = None  # this status to everything
        self.drop_answers = 0  # so many deliveries are taken, and the connection breaks then
        self.lines: list[str] = []
        self.arrived: list[float] = []  # when each line came
        self.exit: dict[str, Any] | None = None
        self.exits = 0  # how often an exit came
        self.beats = 0
        self.runner: dict[str, Any] = {}
        self.authorizations: set[str] = set()
        self.paths: set[str] = set()
        self.statuses: list[int] = []
        self.held = 0  # deliveries that came while nothing was answered
        self._answers = threading.Event()
        self._answers.set()
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen on some free port and say in the home which one it is."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        port = self._server.server_address[1]
        fresh = self.home / "server.json.new"
        fresh.write_text(json.dumps({"pid": os.getpid(), "url": f"http://127.0.0.1:{port}"}))
        fresh.replace(self.home / "server.json")

    def stop(self) -> None:
        """Go away, as a server that is killed does."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Answer nothing from now on."""
        self._answers.clear()

    def let_go(self) -> None:
        """Take what was held, and answer again."""
        self._answers.set()

    def forget(self, *, after: int) -> None:
        """Lose what came after the first ``after`` lines."""
        with self._changed:
            del self.lines[after:], self.arrived[after:]

    def wait_for(self, fact: Callable[[], Any], *, seconds: float = 20.0) -> None:
        """Wait until ``fact()`` holds; it is looked at after each delivery."""
        with self._changed:
            assert self._changed.wait_for(fact, seconds), (self.lines[-3:], self.statuses[-5:])

    def reports(self) -> list[dict[str, Any]]:
        """The lines as objects."""
        return [json.loads(line) for line in self.lines]

    def _take(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and answer to a delivery."""
        with self._changed:
            taken = len(self.lines)
            if self.gone or self.refuse_with is not None:
                return self.refuse_with or 410, {}
            if body["first"] > taken + 1:
                return 409, {"taken": taken}
            fresh = body["lines"][taken + 1 - body["first"] :]
            self.lines += fresh
            self._withdraw(fresh)
            self.arrived += [time.time()] * len(fresh)
            self.beats += not body["lines"]
            self.runner = body["runner"]
            if body["exit"] is not None:
                self.exit, self.exits = body["exit"], self.exits + 1
            answer = {"taken": len(self.lines), "request": self.request, "closed": self.closed}
            return 200, answer

    def _wait_to_answer(self) -> None:
        """Hold a delivery back while nothing is answered."""
        if not self._answers.is_set():
            self.held += 1
            self._answers.wait()

    def _withdraw(self, lines: list[str]) -> None:
        """End the request where one of ``lines`` is what ends it."""
        kind = f'"kind":"{self.withdraw_after}"'
        if any(kind in line for line in lines):
            self.request = self.withdraw_after = None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1  # headers and body in one piece

            def setup(self) -> None:
                super().setup()
                fake._open.add(self.connection)

            def finish(self) -> None:
                fake._open.discard(self.connection)
                with suppress(OSError):
                    super().finish()

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake._wait_to_answer()
                status, answer = fake._take(body)
                with fake._changed:
                    fake.authorizations.add(self.headers["Authorization"])
                    fake.paths.add(self.path)
                    fake.statuses.append(status)
                    dropped = fake.drop_answers > 0
                    fake.drop_answers -= dropped
                if dropped:
                    self.close_connection = True
                else:
                    self._answer(status, json.dumps(answer).encode())
                with fake._changed:
                    fake._changed.notify_all()

            def _answer(self, status: int, content: bytes) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    self.wfile.flush()

            def handle(self) -> None:
                with suppress(OSError):
                    super().handle()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
