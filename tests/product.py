"""The product as a user has it: the command line, and a real server in a home of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import psutil

from tests import inside

T = TypeVar("T")
ENDS = ("COMPLETED", "FAILED", "CANCELLED")
PATIENCE_SECONDS = 60.0  # how long a test waits for a fact before it fails


def eventually(fact: Callable[[], T], what: str = "") -> T:
    """The first true answer of ``fact``.

    Raises:
        AssertionError: it did not come true for a minute.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := fact()):
        assert time.monotonic() < deadline, f"never came true: {what or fact}; last: {answer!r}"
        time.sleep(0.02)
    return answer


class Product:
    """Commands that run in one home, and what they started."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TRAINLEDGER_")},
            "TRAINLEDGER_HOME": str(home),
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "COLUMNS": "100",
            **environment,
        }

    # -- commands

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """A command that has begun."""
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *words: str, expect: int = 0) -> str:
        """What a command printed; it must end with status ``expect``."""
        process = self.popen(*words)
        out, err = process.communicate(timeout=PATIENCE_SECONDS * 3)
        assert process.returncode == expect, f"{words}: {process.returncode}\n{out}\n{err}"
        return out

    def said(self, *words: str) -> str:
        """The same, from a command inside this process: for what a test only has to know.

        A command that finds no server starts one, of which this process is to be no parent.
        """
        if self._told("/healthz") is None:
            return self.run(*words)
        done = inside.run(words, self.environment)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """What such a command says with ``-o json``."""
        return json.loads(self.said(*words, "-o", "json"))

    # -- runs

    def plan(self, script: list[dict[str, Any]], **fields: Any) -> str:
        """The path of a plan for the scripted trainer."""
        path = self.home.parent / f"plan-{len(list(self.home.parent.glob('plan-*.json')))}.json"
        base = {"baseModel": "tiny", "dataset": "rows", "engine": {"sim": script}}
        path.write_text(json.dumps(base | fields))
        return str(path)

    def start(self, script: list[dict[str, Any]], **fields: Any) -> str:
        """The id of a run that has begun."""
        answer: dict[str, str] = self.json(
            "runs", "start", "--force", "-f", self.plan(script, **fields)
        )
        return answer["runId"]

    def record(self, run_id: str) -> dict[str, Any]:
        """The record of a run, as ``runs get -o json`` says it.

        It is asked for again and again, and each time a command would take half a second of the
        processor that the run needs; where no server is there, the command starts one.
        """
        record: dict[str, Any] | None = self._told(f"/v1/runs/{run_id}")
        return record or self.json("runs", "get", run_id)

    def _told(self, path: str) -> Any:
        """What the server answers; None where there is none, or it answers nothing good."""
        try:
            url = json.loads((self.home / "server.json").read_text())["url"]
            token = (self.home / "token").read_text().strip()
            asked = Request(f"{url}{path}", headers={"Authorization": f"Bearer {token}"})
            with urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def steps(self, run_id: str) -> list[dict[str, Any]]:
        """The current series of a run."""
        steps: list[dict[str, Any]] = self.json("runs", "metrics", run_id)["steps"]
        return steps

    def wait_for_phase(self, run_id: str, phase: str) -> dict[str, Any]:
        """The record of a run once it is in ``phase``."""
        if phase in ENDS:
            self.said("runs", "wait", run_id)
        record = eventually(
            lambda: found if (found := self.record(run_id))["phase"] in (phase, *ENDS) else None,
            f"{run_id} is {phase}",
        )
        assert record["phase"] == phase, record["failure"]
        return record

    # -- processes

    def server(self) -> psutil.Process:
        """The server of the home."""
        return psutil.Process(json.loads((self.home / "server.json").read_text())["pid"])

    def kill_server(self) -> None:
        """End the server as a crash does."""
        kill(self.server())

    def worker(self, run_id: str, attempt: int = 1) -> psutil.Process:
        """The worker of an attempt, once there is one."""
        path = self.folder(run_id, attempt) / "worker.json"
        return eventually(
            lambda: psutil.Process(pid) if (pid := _pid(path)) else None, f"{path} names a process"
        )

    def folder(self, run_id: str, attempt: int = 1) -> Path:
        """The files of an attempt."""
        return self.home / "attempts" / run_id / f"a{attempt}"

    def spooled(self, run_id: str) -> list[dict[str, Any]]:
        """What the worker has said so far, whether the ledger knows it or not."""
        path = self.folder(run_id) / "spool" / "rank0.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def close(self) -> None:
        """End everything that was started."""
        kill(*self._ours())

    def _ours(self) -> Iterator[psutil.Process]:
        mark = str(self.home)
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get("TRAINLEDGER_HOME") == mark:
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue


def kill(*processes: psutil.Process) -> None:
    """End processes at once, and see them dead: whoever is to bury them may take a second."""
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    for each in processes:
        eventually(lambda: _is_dead(each), f"{each} is dead")  # noqa: B023  called at once


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C in a command; what it had printed."""
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=PATIENCE_SECONDS)


def _pid(path: Path) -> int | None:
    try:
        pid: int | None = json.loads(path.read_text()).get("pid")
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return pid
