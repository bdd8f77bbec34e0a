"""A home: the real server with real runners, in a folder that goes away afterwards."""

import http.client
import json
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.product import Product

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 600.0

T = TypeVar("T")


def until(fact: Callable[[], T], every_seconds: float = 0.02) -> T:
    """The first true answer of ``fact``.

    Raises:
        TimeoutError: it does not come true.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := fact()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"never came true; the last answer was {answer!r}")
        time.sleep(every_seconds)
    return answer


class Home:
    """One server's home."""

    def __init__(self, folder: Path, slots: int = 4) -> None:
        """Start a server in ``folder``, which is emptied first.

        ``slots``: runs that may train at once.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        devices = json.dumps([f"cpu:{n}" for n in range(slots)])
        self.product = Product(folder / "home", TRAINLEDGER_DEVICES=devices)
        self.up()

    def up(self) -> None:
        """Start the server, unless it is there."""
        self.product.run("server", "start")

    def down(self) -> None:
        """Stop the server; what runs goes on."""
        self.product.run("server", "stop")

    def close(self) -> None:
        """End everything."""
        self.product.close()

    # -- runs

    def start(self, manner: str, number: int) -> str:
        """The id of a run whose trainer reports in a manner."""
        command = [sys.executable, "-m", "benchmarks.trainer", manner, str(number)]
        return self.submit({"command": command, "directory": str(ROOT)}, {"maxAttempts": 1})

    def submit(self, engine: dict[str, Any] | str, execution: dict[str, Any], **more: Any) -> str:
        """The id of a run of an engine; ``more`` are further fields of its plan."""
        plan = {
            "project": "benchmarks",
            "baseModel": "none",
            "dataset": "none",
            "engine": engine,
            "execution": execution,
            **more,
        }
        answer: dict[str, str] = self.request("POST", "/v1/runs", {"plan": plan})
        return answer["runId"]

    def output(self, run_id: str) -> Path:
        """Where the trainer leaves its files."""
        return self.product.folder(run_id) / "output"

    def spool(self, run_id: str) -> Path:
        """What the trainer has said."""
        return self.product.folder(run_id) / "spool" / "rank0.jsonl"

    def go(self, run_id: str) -> None:
        """Let the trainer begin, once it is there and its first word is in the ledger."""
        until(lambda: self.record(run_id)["phase"] == "TRAINING")
        (self.output(run_id) / "go").touch()

    def record(self, run_id: str) -> Any:
        """The record of a run."""
        return self.request("GET", f"/v1/runs/{run_id}")

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Every event of a run so far."""
        lines = self.fetch("GET", f"/v1/runs/{run_id}/events").splitlines()
        return [json.loads(line) for line in lines if line]

    @staticmethod
    def seconds_between(earlier: str, later: str) -> float:
        """Seconds between two moments of the wire."""
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()

    def ended(self, run_id: str) -> Any:
        """The record of a run, once it has ended."""
        return until(lambda: found if (found := self.record(run_id))["timing"]["endedAt"] else None)

    # -- requests

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer to a request over a new connection; a body that is text goes as it is."""
        return json.loads(self.fetch(method, path, body))

    def fetch(self, method: str, path: str, body: Any = None) -> bytes:
        """The bytes of an answer, as a program that uses nothing but Python gets them."""
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        connection, headers = self.connect()
        try:
            connection.request(
                method, path, content, headers | {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, said
        return said

    def connect(self) -> tuple[http.client.HTTPConnection, dict[str, str]]:
        """A new connection to the server, and the headers that it wants."""
        home = self.product.home
        url = json.loads((home / "server.json").read_text())["url"]
        token = (home / "token").read_text().strip()
        netloc = urlsplit(url).netloc
        return http.client.HTTPConnection(netloc, timeout=60), {"Authorization": f"Bearer {token}"}
