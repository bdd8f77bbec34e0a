"""Makers of servers inside the test: the real application over a home of its own.

Nothing is launched: a test speaks as the runner of an attempt that it opened by hand.
"""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from api.app import create_app
from api.service import Service
from api.settings import Settings
from tests import ledgers
from tests.product import eventually

RUNNER = {"host": "here", "pid": 7, "startedAt": 1_790_000_000.0, "now": 1_790_000_000.5}
EXIT = {"code": 0, "signal": None, "at": None, "oomKilled": False, "seen": True}
COMPLETED = '{"kind": "completed"}'


class Api:
    """A client with the server's token, and the parts behind it."""

    def __init__(self, client: httpx2.Client, service: Service) -> None:
        self.client = client
        self.service = service
        self.token = {"Authorization": f"Bearer {service.token}"}

    def get(self, path: str, status: int = 200, **parameters: Any) -> Any:
        """The JSON that ``path`` answers."""
        return strict(self.client.get(path, params=parameters, headers=self.token), status)

    def post(self, path: str, body: Any = None, status: int = 200, **parameters: Any) -> Any:
        """The JSON that ``path`` answers to ``body``."""
        answer = self.client.post(path, json=body, params=parameters, headers=self.token)
        return strict(answer, status)

    def events(self, run_id: str, accept: str = "", **parameters: Any) -> str:
        """The stream of a run's events, to its end."""
        headers = self.token | {"Accept": accept}
        answer = self.client.get(f"/v1/runs/{run_id}/events", params=parameters, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    def started(self, **fields: Any) -> str:
        """A run whose first attempt is at work."""
        return ledgers.started(self.service.ledger, **fields)

    def deliver(
        self,
        run_id: str,
        lines: Sequence[str] = (),
        *,
        first: int = 1,
        status: int = 200,
        **more: Any,
    ) -> Any:
        """What the runner of the first attempt hears."""
        body = {"first": first, "lines": list(lines), "runner": RUNNER} | more
        token = {"Authorization": f"Bearer {self.service.dispatcher.token(run_id, 1)}"}
        path = f"/v1/runs/{run_id}/attempts/1/reports"
        return strict(self.client.post(path, json=body, headers=token), status)


def strict(answer: httpx2.Response, status: int) -> Any:
    """The body of an answer, which must be JSON that every reader takes, and no older than now."""
    assert answer.status_code == status, answer.text
    kind = answer.headers["content-type"]
    assert kind == ("application/json" if status < 400 else "application/problem+json")
    said = loads(answer.text)
    if status >= 400:
        names = {"type", "title", "status", "detail", "instance", "hint"}
        assert names <= said.keys()
        assert all(said[name] for name in names), said
        assert said["status"] == status
    return said


def loads(text: str) -> Any:
    """``text`` as strict JSON: Python's own NaN and Infinity tokens are errors."""
    return _STRICT.decode(text)


def _refuse(token: str) -> None:
    raise AssertionError(f"{token} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse)


def application(home: Path, **settings: Any) -> FastAPI:
    """An application without device slots, whose commits need no disk to be synced."""
    chosen: dict[str, Any] = {"devices": (), "synchronous": "NORMAL"} | settings
    return create_app(Settings(home=home, **chosen))


@contextmanager
def api(home: Path, **settings: Any) -> Iterator[Api]:
    """A server that is called in this process; a stream is read when it has ended."""
    app = application(home, **settings)
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        app.state.service.dispatcher.stop()  # it would launch what a test opens
        yield Api(client, app.state.service)


@contextmanager
def listening(home: Path, **settings: Any) -> Iterator[Api]:
    """A server on a port of this machine; a stream is read while it comes."""
    app = application(home, **settings)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            eventually(lambda: server.started, "the server has started")
            app.state.service.dispatcher.stop()
            url = "http://{}:{}".format(*listener.getsockname())
            with httpx2.Client(base_url=url, timeout=20) as client:
                yield Api(client, app.state.service)
        finally:
            app.state.service.hub.stop()
            server.should_exit = True
            thread.join()
