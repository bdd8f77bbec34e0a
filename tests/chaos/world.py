"""A world in which servers are killed and answers are lost, over one home."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import psutil

from tests.chaos.proxy import Proxy

T = TypeVar("T")
ENDS = ("COMPLETED", "FAILED", "CANCELLED")
PATIENCE_SECONDS = 120.0
LOSS = 0.05  # share of answers to runners that never arrive


class World:
    """A home with its server; everything that is started here ends with it."""

    def __init__(self, home: Path, rng: Random, *, slots: int) -> None:
        self.home = home
        self.server_kills = 0
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TRAINLEDGER_")},
            "TRAINLEDGER_HOME": str(home),
            "TRAINLEDGER_DEVICES": json.dumps([f"cpu:{n}" for n in range(slots)]),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "OMP_NUM_THREADS": "1",
        }
        self._direct = ""  # where the server itself listens
        self._server: subprocess.Popen[bytes] | None = None
        self._restarting = threading.Lock()
        self.proxy = Proxy(Random(rng.random()), lambda: self._direct, loss=LOSS)
        home.mkdir(parents=True)
        self.start_server()

    # -- the server

    def start_server(self) -> None:
        """Start a server and put the proxy before it."""
        file = self.home / "server.json"
        with (self.home / "server.log").open("ab") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "api"],
                cwd=self.home,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._server = server

        def announced() -> dict[str, Any] | None:
            assert server.poll() is None, (self.home / "server.log").read_text()[-2000:]
            said = _read(file)
            return said if said and said["pid"] == server.pid else None

        said = until(announced)
        self._direct = said["url"]
        fresh = file.with_name("server.json.chaos")
        fresh.write_text(json.dumps(said | {"url": self.proxy.url}))
        fresh.replace(file)
        until(lambda: self._unless_away("/healthz"))

    def kill_server(self) -> None:
        """End the server as a crash does, and start another."""
        with self._restarting:
            assert self._server is not None
            self._server.kill()
            self._server.wait()
            self.server_kills += 1
            self.start_server()

    def _unless_away(self, path: str) -> list[Any] | None:
        """The answer in a list; None where there is no server that could give one."""
        try:
            return [self.get(path)]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise AssertionError(error.read().decode()) from None
        except OSError:
            pass
        return None

    # -- requests, straight to the server

    def get(self, path: str) -> Any:
        """The JSON answer to a GET.

        Raises:
            OSError: the server is away, or refused.
        """
        return self._request("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON answer to a POST.

        Raises:
            OSError: the server is away, or refused.
        """
        return self._request("POST", path, body)

    def insist(self, path: str) -> Any:
        """The JSON answer to a GET, however often the server goes away."""
        return until(lambda: self._unless_away(path))[0]

    def lines(self, path: str) -> list[Any]:
        """The JSON lines of a stream that ends by itself."""
        return [json.loads(line) for line in self._read("GET", path).splitlines() if line]

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self._read(method, path, body))

    def _read(self, method: str, path: str, body: Any = None) -> bytes:
        token = (self.home / "token").read_text().strip()
        request = urllib.request.Request(
            self._direct + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content: bytes = answer.read()
        except http.client.HTTPException as error:  # it died in the middle of its answer
            raise ConnectionError from error
        return content

    # -- processes of an attempt

    def folder(self, run_id: str, attempt: int) -> Path:
        """The files of an attempt."""
        return self.home / "attempts" / run_id / f"a{attempt}"

    def signal(self, run_id: str, which: str, number: signal.Signals) -> bool:
        """Send a signal to the ``worker`` or ``runner`` of the newest attempt; whether it was."""
        for folder in sorted((self.home / "attempts" / run_id).glob("a*"), key=_number)[-1:]:
            said = _read(folder / f"{which}.json")
            if said and said.get("pid"):
                with suppress(psutil.Error):
                    process = psutil.Process(said["pid"])
                    if process.environ().get("TRAINLEDGER_HOME") == str(self.home) or (
                        process.environ().get("TRAINLEDGER_RUN") == run_id
                    ):
                        process.send_signal(number)
                        return True
        return False

    def server_log(self) -> str:
        """The end of what the servers wrote."""
        return (self.home / "server.log").read_text(errors="replace")[-5_000:]

    def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        for process in list(self.processes()):
            with suppress(psutil.Error):
                process.kill()
        self.proxy.close()

    def processes(self) -> Iterator[psutil.Process]:
        """Runners and workers of this home."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words, environment = process.cmdline(), process.environ()
                is_runner = "engine.runner" in words and any(str(self.home) in w for w in words)
                is_worker = str(self.home) in environment.get("TRAINLEDGER_SPOOL", "")
                if is_runner or is_worker:
                    yield process


def until(fact: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
    """The first true answer of ``fact``.

    Raises:
        AssertionError: it did not come.
    """
    deadline = time.monotonic() + seconds
    while not (answer := fact()):
        assert time.monotonic() < deadline, f"never came true: {fact}"
        time.sleep(0.05)
    return answer


def _read(path: Path) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return said


def _number(folder: Path) -> int:
    return int(folder.name[1:])
