"""The folder of a job: what the runner is told, and the files that it leaves there."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANK_SECONDS = 300.0  # by default, until a rank that keeps the others waiting counts as hung


@dataclass(frozen=True)
class Job:
    """One job of a run on this machine."""

    folder: Path
    run: str
    kind: str  # attempt or preparation
    number: int  # of its kind in the run, from 1
    command: tuple[str, ...]
    directory: str | None  # where the worker starts; the runner's own where None
    devices: tuple[str, ...]
    environment: dict[str, str]
    token: str  # good for the reports of this job only; the worker never gets it
    server_file: Path
    stop_grace_seconds: float
    patience_seconds: float  # so long an ended worker's reports wait for a server
    ranks: int = 1  # processes that the worker is made of
    rank_seconds: float = RANK_SECONDS  # so long one of them may keep the others waiting
    uuids: dict[str, str] = field(default_factory=dict)  # of those of its devices that have one

    @property
    def spool(self) -> Path:
        """Report lines of rank 0, which speaks for all."""
        return self.spool_of(0)

    def spool_of(self, rank: int) -> Path:
        """Report lines of one process of the worker."""
        return self.folder / "spool" / f"rank{rank}.jsonl"

    @property
    def rendezvous(self) -> Path:
        """Where the ranks find each other; the first of them makes it."""
        return self.folder / "rendezvous"

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
        kind=said["kind"],
        number=said["number"],
        command=tuple(said["command"]),
        directory=said["directory"],
        devices=tuple(said["devices"]),
        environment=said["environment"],
        token=said["token"],
        server_file=Path(said["serverFile"]),
        stop_grace_seconds=said["stopGraceSeconds"],
        patience_seconds=said["patienceSeconds"],
        ranks=said.get("ranks", 1),
        rank_seconds=said.get("rankSeconds", RANK_SECONDS),
        uuids=said.get("uuids", {}),
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
