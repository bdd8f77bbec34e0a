"""Local: the launcher for this machine, one detached runner process per job."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import engine
from engine.dispatch.commands import worker_command, worker_directory, worker_ranks
from engine.dispatch.gpus import Gpu
from engine.dispatch.launcher import JobRef, JobState, LaunchRequest
from engine.runner.job import RANK_SECONDS, read_json
from engine.runner.processes import kill_groups_of, kill_tree

PATIENCE_SECONDS = 86_400.0  # so long an ended job's reports wait for a server
ROWS = "cache/rows"  # in the home: rows that are tokenised already
DATASETS = "datasets"  # in the home: the rows of the catalogue


class _Runner(subprocess.Popen[bytes]):
    """A runner, which goes on when nobody here looks after it any more: that is what it is for."""

    def __del__(self) -> None:
        """Say nothing of that; Python would warn."""


class LocalLauncher:
    """Keeps each job in a folder of its own under ``home``, where the runner finds it."""

    name = "local"

    def __init__(
        self, home: Path, gpus: Iterable[Gpu] = (), *, rank_seconds: float = RANK_SECONDS
    ) -> None:
        """``rank_seconds``: how long one rank of a job may keep the others waiting."""
        self._home = home
        self._rank_seconds = rank_seconds
        self._uuids = {each.slot: each.uuid for each in gpus}
        # Runners are children of this process while it lives: somebody has to reap them.
        self._children: dict[JobRef, _Runner] = {}

    def folder(self, ref: JobRef) -> Path:
        """The folder of a job."""
        return self._home.resolve() / "attempts" / ref.run / ref.job.name

    def submit(self, request: LaunchRequest) -> JobRef:
        """Start the runner of the job, unless one is alive."""
        ref = request.ref
        if not self._is_alive(ref):
            folder = self.folder(ref)
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            _write_private(folder / "plan.json", request.plan)
            _write_private(folder / "job.json", self._job(request))
            self._children[ref] = self._start_runner(folder)
        return ref

    def observe(self, refs: Iterable[JobRef]) -> dict[JobRef, JobState]:
        """The state of each job at this moment; reaps the runners that have ended."""
        for ref, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[ref]
        return {ref: self._state(ref) for ref in refs}

    def cancel(self, ref: JobRef) -> None:
        """Ask the runner to end its worker; it does so by force after the grace.

        One that cannot be asked yet looks for the file as soon as it can.
        """
        if self.folder(ref).exists():
            with suppress(OSError):  # a full disk; once the runner can be asked, that is enough
                _write_private(self.folder(ref) / "cancel.json", {})
        runner = self._runner(ref)
        if runner is not None:
            runner.terminate()

    def kill(self, ref: JobRef) -> None:
        """Kill the runner and its worker, with the groups that they lead."""
        child, runner = self._children.get(ref), self._runner(ref)
        if runner is None and child is not None and child.poll() is None:
            runner = psutil.Process(child.pid)  # it has not said who it is yet
        if runner is not None:
            kill_tree(runner)
        # A runner that was dead already has left them.
        kill_groups_of(read_json(self.folder(ref) / "worker.json"))
        self.observe([])  # reaps the runner

    def _job(self, request: LaunchRequest) -> dict[str, Any]:
        """What the runner needs to know."""
        return {
            "run": request.ref.run,
            "kind": request.ref.kind,
            "number": request.ref.number,
            "command": worker_command(request.plan, request.ref.kind),
            "directory": worker_directory(request.plan),
            "devices": list(request.devices),
            "ranks": worker_ranks(request.plan, request.ref.kind),
            "rankSeconds": self._rank_seconds,
            "uuids": {slot: self._uuids[slot] for slot in request.devices if slot in self._uuids},
            "environment": {
                "TRAINLEDGER_CACHE": str(self._home.resolve() / ROWS),
                "TRAINLEDGER_DATASETS": str(self._home.resolve() / DATASETS),
                **request.environment,
            },
            "token": request.token,
            "serverFile": str(self._home.resolve() / "server.json"),
            "stopGraceSeconds": request.plan["execution"]["stopGrace"],
            "patienceSeconds": PATIENCE_SECONDS,
        }

    def _start_runner(self, folder: Path) -> _Runner:
        """A runner in a session of its own, so that it outlives this process."""
        with (folder / "runner.log").open("ab") as log:
            return _Runner(
                [sys.executable, *_runner_words(folder)],
                cwd=self._home,
                env=_runner_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _state(self, ref: JobRef) -> JobState:
        if self._is_alive(ref):
            return JobState.ALIVE
        return JobState.ENDED if (self.folder(ref) / "exit.json").exists() else JobState.GONE

    def _is_alive(self, ref: JobRef) -> bool:
        """Whether the job has a runner; one that just starts has not said so itself yet."""
        child = self._children.get(ref)
        return (child is not None and child.poll() is None) or self._runner(ref) is not None

    def _runner(self, ref: JobRef) -> psutil.Process | None:
        """The process that looks after the job; None where there is none.

        Its words tell it from a later process with the same id. Its time of creation would not do:
        that changes whenever the system's clock is set right.
        """
        folder = self.folder(ref)
        try:
            said = json.loads((folder / "runner.json").read_bytes())
            process = psutil.Process(said["pid"])
            words = process.cmdline()  # a dead process that is not reaped has none
        except (FileNotFoundError, psutil.Error):
            return None
        return process if words[1:] == _runner_words(folder) else None


def _runner_words(folder: Path) -> list[str]:
    """What Python is told in order to be the runner of a job."""
    return ["-m", "engine.runner", str(folder)]


def _runner_environment() -> dict[str, str]:
    """This process's environment, in which the runner finds our packages."""
    known = dict(os.environ)  # noqa: TID251 - handed on, not read
    root = Path(engine.__file__).parent.parent
    if root.name not in ("site-packages", "dist-packages"):  # running from a checkout
        known["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), known.get("PYTHONPATH")]))
    return known


def _write_private(path: Path, value: dict[str, Any]) -> None:
    """Replace ``path`` by ``value`` at once, for its owner only."""
    fresh = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file)
    fresh.replace(path)
