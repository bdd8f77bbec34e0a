"""The parts of the server, put together: ledger, projections, dispatch."""

import os
import threading
import time
from datetime import UTC, datetime
from typing import Any

from api.auth import token_file
from api.hub import Hub
from api.problems import AMBIGUOUS_ID, NOT_READY, ProblemError
from api.settings import Settings
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.local import LocalLauncher
from engine.dispatch.pool import DevicePool
from ledger import audit, plan as plans
from ledger.errors import NotFoundError, PlanError
from ledger.events import RunId
from ledger.ledger import Ledger
from ledger.plan import CommandEngine
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.compare import differences
from projections.documents import Documents
from projections.follow import Follower
from projections.warehouse import Warehouse
from projections.warehouse.publish import Publisher

CATCH_UP_SECONDS = 2.0  # so long a reader waits for what was stored before it asked
MIN_PREFIX = 4
ID_LENGTH = 16


def utc_now() -> datetime:
    """The server's clock."""
    return datetime.now(UTC)  # noqa: TID251  the one place where the server reads it


class Service:
    """One server's parts; ``start`` begins to follow and to dispatch."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        home = settings.home
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.token = token_file(home / "token")
        self._database = Database(home / "ledger.db", synchronous=settings.synchronous)
        self.ledger = Ledger(SQLiteRecorder(self._database), clock=utc_now)
        self.documents = Documents(self._database, self.ledger)
        self.warehouse = Warehouse(home / "warehouse.duckdb")
        self.followers = {
            projection.name: Follower(self.ledger, projection)
            for projection in (self.documents, self.warehouse)
        }
        self.publisher = Publisher(self.warehouse, home / "analytics.duckdb")
        self.pool = DevicePool(settings.devices)
        self.dispatcher = Dispatcher(
            self.ledger,
            LocalLauncher(home),
            self.pool,
            secret=token_file(home / "secret").encode(),
            clock=utc_now,
            monotonic=time.monotonic,
        )
        self.hub = Hub(self.ledger)
        self._verifying = threading.Lock()

    def start(self) -> None:
        """Begin to follow the ledger and to work on what has not ended."""
        for follower in self.followers.values():
            follower.start()
        self.publisher.start()
        self.dispatcher.start()
        self.hub.start()

    def stop(self) -> None:
        """Stop every thread, then close the files; attempts go on without us."""
        self.hub.stop()
        self.dispatcher.stop()
        for follower in self.followers.values():
            follower.stop()
        self.publisher.stop()
        self.warehouse.close()
        self._database.close()

    # -- what routes ask

    def check(self, document: Any) -> plans.Plan:
        """The plan that ``document`` says, if this server can carry it out.

        Raises:
            PlanError: it cannot.
        """
        plan = plans.parse(document)
        devices, slots = plan.execution.devices, len(self.pool.slots)
        if devices > slots:
            raise PlanError(
                [f"execution.devices is {devices}, and this server has {slots}"],
            )
        allowed = self.settings.is_local or self.settings.allow_command_engine
        if isinstance(plan.engine, CommandEngine) and not allowed:
            raise PlanError(["engine.command is not allowed on a server that others can reach"])
        return plan

    def find(self, prefix: str) -> RunId:
        """The run whose id is or begins with ``prefix``.

        Raises:
            NotFoundError: there is none.
            ProblemError: there are several, or one may be too new to be known.
        """
        is_id = MIN_PREFIX <= len(prefix) <= ID_LENGTH and not set(prefix) - set("0123456789abcdef")
        found = self.documents.find(prefix, limit=10) if is_id else []
        if is_id and not found:
            is_current = self.catch_up("documents", self.ledger.position())
            found = self.documents.find(prefix, limit=10)
            if not found and not is_current:
                raise ProblemError(NOT_READY, "the newest runs cannot be read just now")
        if not found:
            raise NotFoundError(f"there is no run {prefix[:80]!r}", NotFoundError.HINT)
        if len(found) > 1:
            raise ProblemError(
                AMBIGUOUS_ID,
                f"{prefix} is how the ids of {len(found)} runs begin",
                more={"candidates": found},
            )
        return RunId(found[0])

    def record(self, run_id: str) -> dict[str, Any]:
        """The record of a run, with what was stored before it was asked for."""
        self.catch_up("documents", self.ledger.position())
        record = self.documents.get(run_id)
        if record is None:
            raise NotFoundError(f"there is no run {run_id}", NotFoundError.HINT)
        return record | {"liveness": self.dispatcher.liveness(run_id)}

    def catch_up(self, projection: str, position: int) -> bool:
        """Wait for a projection to reach ``position``, but not for long; whether it did."""
        return self.followers[projection].wait_for(position, CATCH_UP_SECONDS)

    def checks(self) -> list[dict[str, Any]]:
        """Whether each part of the server works."""
        failures: dict[str, Exception | None] = {
            name: follower.failure for name, follower in self.followers.items()
        }
        failures["published copy"] = self.publisher.failure
        failures["dispatch"] = self.dispatcher.failure
        free = os.statvfs(self.settings.home)
        free_bytes = free.f_bavail * free.f_frsize
        return [
            {"name": "disk", "ok": free_bytes > 2**28, "detail": f"{free_bytes // 2**20} MiB free"},
            *(
                {
                    "name": name,
                    "ok": failure is None,
                    "detail": "works" if failure is None else type(failure).__name__,
                }
                for name, failure in failures.items()
            ),
        ]

    def verify(self) -> dict[str, Any]:
        """Check every chain, then compare the live projections with a replay."""
        with self._verifying:
            started = time.monotonic()
            verdict = audit.verify(self.ledger.read_stored)
            faults: list[dict[str, Any]] = [
                {"verdict": "eventChanged", **fault._asdict()} for fault in verdict.faults
            ]
            if not faults:  # what cannot be read cannot be replayed
                faults += self._differences()
            return {
                "ok": not faults,
                "position": verdict.position,
                "events": verdict.events,
                "streams": verdict.streams,
                "seconds": round(time.monotonic() - started, 3),
                "faults": faults,
            }

    def _differences(self) -> list[dict[str, Any]]:
        end = self.ledger.position()
        behind = [name for name in self.followers if not self.catch_up(name, end)]
        if behind:  # comparing what they hold would call the rest of the ledger true
            return [
                {
                    "verdict": "projectionDiffers",
                    "projection": name,
                    "detail": f"stands at position {self.followers[name].position()} of {end}",
                }
                for name in behind
            ]
        return [
            {
                "verdict": "projectionDiffers",
                "projection": each.projection,
                "runId": each.run_id,
                "detail": each.detail,
            }
            for each in differences(self.ledger, self.documents, self.warehouse)
        ]
