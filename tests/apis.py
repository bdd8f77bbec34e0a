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
from ledger import lifecycle
from ledger.events import Job, RoleName
from tests import ledgers
from tests.product import eventually

RUNNER = {"host": "here", "pid": 7, "startedAt": 1_790_000_000.0}
EXIT = {"code": 0, "signal": None, "at": None, "oomKilled": False, "seen": True}
KILLED = EXIT | {"code": None, "signal": 9}
COMPLETED = '{"kind": "completed"}'
BOTH = ("weights", "trainingState")
WRITER = {
    "engine": "trl",
    "engineVersion": "1.16.0",
    "worldSize": 1,
    "baseModel": "tiny",
    "adapter": {"rank": 16, "alpha": 32.0, "targetModules": ["q_proj", "v_proj"]},
}


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

    def logs(self, run_id: str, **parameters: Any) -> str:
        """What a worker printed."""
        path = f"/v1/runs/{run_id}/logs"
        answer = self.client.get(path, params=parameters, headers=self.token)
        assert answer.status_code == 200, answer.text
        return answer.text

    def token_of(self, run_id: str, attempt: int = 1) -> dict[str, str]:
        """The header that the runner of an attempt sends."""
        return self.token_of_job(run_id, Job(attempt))

    def token_of_job(self, run_id: str, job: Job) -> dict[str, str]:
        """The header that the runner of a job sends."""
        return {"Authorization": f"Bearer {self.service.dispatcher.tokens.of(run_id, job)}"}

    def token_for(self, name: str, role: RoleName, **more: Any) -> dict[str, str]:
        """The header with a new token of this name and role."""
        _, secret = self.service.tokens.create(name, role, principal="tester", **more)
        return {"Authorization": f"Bearer {secret}"}

    # -- what happens to runs

    def started(self, **fields: Any) -> str:
        """A run whose first attempt is at work."""
        return ledgers.started(self.service.ledger, **fields)

    def deliver(
        self,
        run_id: str,
        lines: Sequence[str] = (),
        *,
        first: int = 1,
        attempt: int = 1,
        status: int = 200,
        **more: Any,
    ) -> Any:
        """What the runner of an attempt hears."""
        body = {"first": first, "lines": list(lines), "runner": RUNNER} | more
        path = f"/v1/runs/{run_id}/attempts/{attempt}/reports"
        token = self.token_of(run_id, attempt)
        return strict(self.client.post(path, json=body, headers=token), status)

    def opened_again(self, run_id: str) -> None:
        """Have a run that waits go on from what it saved, as dispatch would."""
        ledger = self.service.ledger
        saved = ledger.run(run_id).saved
        ledger.decide(
            run_id,
            lambda state, stamp: lifecycle.open_attempt(
                state,
                stamp,
                devices=("cpu:0",),
                launcher="local",
                token_sha256="0" * 64,
                snapshot_id=saved.snapshot_id if saved else None,
            ),
            principal="dispatch",
        )
        number = self.service.attempt(run_id)
        self.deliver(run_id, attempt=number)

    def save(self, run_id: str, step: int, *, line: int, attempt: int = 1, **facts: Any) -> str:
        """Have the worker of an attempt save an update; the id once that is a snapshot."""
        folder = self.folder(run_id, attempt) / "output" / f"checkpoint-{step}"
        (folder / "trainingState").mkdir(parents=True)
        (folder / "adapter_model.safetensors").write_bytes(b"w" * 1_000)
        (folder / "trainingState" / "optimizer.pt").write_bytes(b"o" * (2_000 + step))
        said = {"path": str(folder), "artifacts": BOTH, "writer": WRITER} | facts
        report = json.dumps({"kind": "snapshot", "step": step, **said})
        self.deliver(run_id, [report], first=line, attempt=attempt)
        return eventually(lambda: self._snapshot(run_id, step), f"update {step} is committed")

    def _snapshot(self, run_id: str, step: int) -> str | None:
        snapshots = self.service.ledger.run(run_id).snapshots
        return next((each.snapshot_id for each in snapshots if each.step == step), None)

    def folder(self, run_id: str, attempt: int = 1) -> Path:
        """The files of an attempt."""
        return self.service.attempts / run_id / f"a{attempt}"


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
    """A server that is called in this process; a stream is read when it has ended.

    It seals nothing: a seal comes when it likes after a run has ended, and where a test says that
    nothing is stored, nothing else may be.
    """
    with sealing(home, **settings) as server:
        server.service.sealing.stop()
        yield server


@contextmanager
def sealing(home: Path, **settings: Any) -> Iterator[Api]:
    """The same, which seals as any server does."""
    app = application(home, **settings)
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        app.state.service.dispatcher.rounds.stop()  # it would launch what a test opens
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
            app.state.service.dispatcher.rounds.stop()
            app.state.service.sealing.stop()
            url = "http://{}:{}".format(*listener.getsockname())
            with httpx2.Client(base_url=url, timeout=20) as client:
                yield Api(client, app.state.service)
        finally:
            app.state.service.hub.stop()
            server.should_exit = True
            thread.join()
