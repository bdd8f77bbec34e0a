"""The job folder of an attempt: what the runner is told, and the files that it leaves there."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """One attempt of a run on this machine."""

    folder: Path
    run: str
    attempt: int
    command: tuple[str, ...]
    directory: str | None  # where the worker starts; the runner's own where None
    devices: tuple[str, ...]
    environment: dict[str, str]
    token: str  # good for the reports of this attempt only; the worker never gets it
    server_file: Path
    stop_grace_seconds: float
    patience_seconds: float  # so long an ended worker's reports wait for a server

    @property
    def spool(self) -> Path:
        """Report lines of rank 0."""
        return self.folder / "spool" / "rank0.jsonl"

    @property
    def plan(self) -> Path:
        """The resolved plan."""
        return self.folder / "plan.json"

    @property
    def control(self) -> Path:
        """The newest request to the worker."""
        return self.folder / "control.json"

    @property
    def output(self) -> Path:
        """What the worker makes."""
        return self.folder / "output"

    @property
    def worker_log(self) -> Path:
        """What the worker prints."""
        return self.folder / "worker.log"

    @property
    def worker_file(self) -> Path:
        """Which process the worker is; written before it starts, so that none starts twice."""
        return self.folder / "worker.json"

    @property
    def cancel_file(self) -> Path:
        """There once the job is cancelled, however early."""
        return self.folder / "cancel.json"

    @property
    def exit_file(self) -> Path:
        """How the worker ended."""
        return self.folder / "exit.json"


def load(folder: Path) -> Job:
    """The job that ``folder`` describes.

    Raises:
        OSError: there is no job in ``folder``.
    """
    said = json.loads((folder / "job.json").read_bytes())
    return Job(
        folder=folder,
        run=said["run"],
        attempt=said["attempt"],
        command=tuple(said["command"]),
        directory=said["directory"],
        devices=tuple(said["devices"]),
        environment=said["environment"],
        token=said["token"],
        server_file=Path(said["serverFile"]),
        stop_grace_seconds=said["stopGraceSeconds"],
        patience_seconds=said["patienceSeconds"],
    )


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace ``path`` by ``value`` at once: a reader sees the old file or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    fresh.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """What ``path`` says; None where there is no such file."""
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value
