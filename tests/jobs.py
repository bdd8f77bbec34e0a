"""Real jobs of the local launcher for tests, and a clean end for what they leave running."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from engine.dispatch.launcher import JobRef, JobState, LaunchRequest
from engine.dispatch.local import LocalLauncher
from ledger import plan
from tests.fake_ingest import FakeIngest

RUN = "00000000000000aa"


class Jobs:
    """One job of one run: what a test does to it and sees of it."""

    def __init__(self, home: Path, ingest: FakeIngest) -> None:
        self.ref = JobRef(RUN, 1)
        self.ingest = ingest
        self._home = home
        self._launchers = [LocalLauncher(home)]

    def submit(
        self,
        script: list[dict[str, Any]] | None = None,
        *,
        command: list[str] | None = None,
        directory: str | None = None,
        stop_grace: float = 10.0,
        devices: tuple[str, ...] = ("cpu:0",),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Submit a scripted trainer or a command."""
        engine: dict[str, Any] = {"sim": script or []}
        if command is not None:
            engine = {"command": command, "directory": directory}
        document = {
            "baseModel": "a base model",
            "dataset": "a data set",
            "engine": engine,
            "execution": {"stopGrace": stop_grace},
        }
        resolved, _ = plan.resolve(plan.parse(document))
        self._launcher().submit(
            LaunchRequest(self.ref, resolved, devices, self.ingest.token, environment or {})
        )

    def another_launcher(self) -> None:
        """Forget what the launcher remembers, as a restarted server does."""
        self._launchers.append(LocalLauncher(self._home))

    def forget_launchers(self) -> None:
        """Leave the job to itself, as a server does that ends."""
        self._launchers.clear()

    def cancel(self) -> None:
        """Cancel the job."""
        self._launcher().cancel(self.ref)

    def kill(self) -> None:
        """Kill the job."""
        self._launcher().kill(self.ref)

    def state(self) -> JobState:
        """What the launcher sees of the job."""
        return self._launcher().observe([self.ref])[self.ref]

    def folder(self) -> Path:
        """The job folder."""
        return self._launcher().folder(self.ref)

    def spool(self) -> str:
        """Everything that the worker has said."""
        return (self.folder() / "spool" / "rank0.jsonl").read_text(encoding="utf-8")

    def log(self, name: str) -> str:
        """What stands in a log of the job."""
        return (self.folder() / name).read_text(encoding="utf-8")

    def runners(self) -> list[psutil.Process]:
        """The runner processes of this job.

        A worker to be shows the words of its runner until it has its own; it is none.
        """
        found = {each.pid: each for each in psutil.process_iter() if self._is_runner(each)}
        return [each for each in found.values() if self._parent(each) not in found]

    def worker(self) -> psutil.Process:
        """The worker process of the only runner, once it is there."""
        (runner,) = self.runners()
        self.wait_for(runner.children)
        (worker,) = runner.children()
        return worker

    def kill_runner(self) -> None:
        """End the runner as the system does when memory is short."""
        (runner,) = self.runners()
        runner.kill()
        self.wait_until_gone()

    def stop_runner(self) -> None:
        """Stop the runner without an end, so that it says nothing and heeds nothing."""
        (runner,) = self.runners()
        runner.suspend()

    def processes(self) -> list[psutil.Process]:
        """The runner and everything that it began."""
        (runner,) = self.runners()
        return [runner, *runner.children(recursive=True)]

    def control(self) -> dict[str, Any]:
        """What the worker is asked for; nothing where it was never asked for anything."""
        try:
            said: dict[str, Any] = json.loads((self.folder() / "control.json").read_text())
        except FileNotFoundError:
            return {}
        return said

    def wait_until_gone(self) -> None:
        """Wait until the job has no runner any more."""
        self.wait_for(lambda: self.state() != JobState.ALIVE)

    def wait_for(self, fact: Callable[[], Any], *, seconds: float = 20.0) -> None:
        """Wait until ``fact()`` holds."""
        end = time.monotonic() + seconds
        while not fact():
            assert time.monotonic() < end, self.log("runner.log")
            time.sleep(0.005)

    def end(self) -> None:
        """Kill what still runs, and reap it."""
        for runner in self.runners():
            for process in [*runner.children(recursive=True), runner]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        for launcher in self._launchers:
            self.wait_for(partial(self._is_gone_for, launcher))

    def _is_gone_for(self, launcher: LocalLauncher) -> bool:
        return launcher.observe([self.ref])[self.ref] != JobState.ALIVE

    def _launcher(self) -> LocalLauncher:
        return self._launchers[-1]

    @staticmethod
    def _parent(process: psutil.Process) -> int | None:
        with suppress(psutil.Error):
            return process.ppid()
        return None

    def _is_runner(self, process: psutil.Process) -> bool:
        try:
            words = process.cmdline()
        except psutil.Error:
            return False
        return words[1:3] == ["-m", "engine.runner"] and words[3:] == [os.fspath(self.folder())]


@contextmanager
def running_jobs(home: Path) -> Iterator[Jobs]:
    """A job to be, with a server that takes its reports; nothing runs on afterwards."""
    with FakeIngest(home) as ingest:
        jobs = Jobs(home, ingest)
        try:
            yield jobs
        finally:
            jobs.end()
