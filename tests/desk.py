"""A dispatcher with its ledger, its store of snapshots, a launcher and clocks that a test moves."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from engine.dispatch.artifacts import ArtifactStore
from engine.dispatch.brancher import Brancher
from engine.dispatch.dispatcher import Dispatcher, Runner
from engine.dispatch.keeper import Keeper
from engine.dispatch.launcher import JobRef, JobState, LaunchRequest
from engine.dispatch.pool import DevicePool
from engine.failures import Exit
from ledger.branches import Branches
from ledger.events import Event, Job, RunFailed
from ledger.ledger import Ledger
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from ledger.store.recorder import LedgerRecorder
from tests import make

E = TypeVar("E", bound=Event)
RUNNER = Runner("here", 7, make.moment(1))
ONCE = {"maxAttempts": 1}
KILLED = Exit(signal=9)


class FakeLauncher:
    """Starts nothing; remembers what it was asked for, and says what a test tells it to."""

    name = "fake"

    def __init__(self) -> None:
        self.submitted: list[LaunchRequest] = []
        self.cancelled: list[JobRef] = []
        self.killed: list[JobRef] = []
        self.states: dict[JobRef, JobState] = {}
        self.fault: Exception | None = None

    def submit(self, request: LaunchRequest) -> JobRef:
        if self.fault is not None:
            raise self.fault
        self.submitted.append(request)
        return request.ref

    def observe(self, refs: Iterable[JobRef]) -> dict[JobRef, JobState]:
        return {ref: self.states.get(ref, JobState.ALIVE) for ref in refs}

    def cancel(self, ref: JobRef) -> None:
        self.cancelled.append(ref)

    def kill(self, ref: JobRef) -> None:
        self.killed.append(ref)


class Desk:
    """A dispatcher with its ledger, launcher and clocks."""

    def __init__(
        self,
        home: Path,
        recorder: LedgerRecorder | None = None,
        slots: tuple[str, ...] = ("cpu:0",),
    ) -> None:
        self.home = home
        self.seconds = 0.0
        self.ledger = Ledger(recorder or MemoryRecorder(), clock=self.now)
        self.launcher = FakeLauncher()
        self.pool = DevicePool(slots)
        self.branches = Branches(self.ledger)
        store = ArtifactStore(f"file://{home}/snapshots")
        self.brancher = Brancher(self.ledger, self.branches, store)
        self.keeper = Keeper(
            self.ledger,
            self.branches,
            store,
            attempts=home / "attempts",
            restores=home / "restores",
            monotonic=lambda: self.seconds,
        )
        self.dispatcher = Dispatcher(
            self.ledger,
            self.launcher,
            self.pool,
            self.keeper,
            preparations=1,
            secret=b"secret",
            clock=self.now,
            monotonic=lambda: self.seconds,
        )

    def now(self) -> datetime:
        return make.START + timedelta(seconds=self.seconds)

    def work(self, after: float = 1.0) -> None:
        self.seconds += after
        self.brancher.work()
        self.keeper.work()
        self.dispatcher.work()

    def hear(
        self,
        run_id: str,
        *lines: str,
        attempt: int = 1,
        preparation: int = 0,
        first: int = 1,
        seen: Exit | None = None,
        at: float = 50,
    ) -> tuple[int, str | None, bool]:
        end = None if seen is None else (seen, make.moment(at))
        job = Job(preparation, "preparation") if preparation else Job(attempt)
        return tuple(  # type: ignore[return-value]
            self.dispatcher.hear(run_id, job, runner=RUNNER, first=first, lines=lines, seen=end)
        )

    def snapshot_line(self, run_id: str, step: int, attempt: int = 1, **fields: Any) -> str:
        """The line for a checkpoint that lies on the disk."""
        output = self.home / "attempts" / run_id / f"a{attempt}" / "output"
        folder = output / f"checkpoint-{step}"
        (folder / "trainingState").mkdir(parents=True)
        (folder / "adapter_model.safetensors").write_text(f"weights of {run_id} at {step}")
        (folder / "trainingState" / "state.json").write_text(f"state at {step}")
        said = {"kind": "snapshot", "step": step, "path": str(folder)}
        return json.dumps(said | {"artifacts": ["weights", "trainingState"]} | fields)

    def events(self, run_id: str, kind: type[E]) -> list[E]:
        """The run's events of one kind, oldest first."""
        found = self.ledger.read_run(run_id, 0, 10_000)
        return [each.event for each in found if isinstance(each.event, kind)]

    def phase(self, run_id: str) -> Phase:
        return self.ledger.run(run_id).phase

    def failure(self, run_id: str) -> RunFailed:
        event = self.ledger.read_run(run_id, 0, 100)[-1].event
        assert isinstance(event, RunFailed)
        return event
