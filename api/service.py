"""The parts of the server, put together: ledger, projections, dispatch."""

import os
import time
from datetime import UTC, datetime
from typing import Any

from api import audit, exchange, rebuild
from api.audit import Auditor
from api.auth import token_file
from api.exchange import Exchange
from api.grafana import Grafana
from api.home import EXCHANGE
from api.hub import Hub
from api.prices import PriceBook, money
from api.problems import (
    ATTEMPT_NOT_FOUND,
    NOT_READY,
    PREPARATION_NOT_FOUND,
    ProblemError,
)
from api.rebuild import Rebuilder
from api.rows import Rows
from api.settings import Settings
from engine.dispatch import gpus
from engine.dispatch.artifacts import ArtifactStore
from engine.dispatch.brancher import Brancher
from engine.dispatch.checking import Checker
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.keeper import Keeper
from engine.dispatch.local import DATASETS, ROWS, LocalLauncher
from engine.dispatch.pool import DevicePool
from engine.dispatch.rounds import Rounds
from ledger import ids, plan as plans, signing
from ledger.branches import Branches
from ledger.datasets import Datasets
from ledger.errors import NoSnapshotError, NotFoundError, PlanError
from ledger.events import Job, RunId
from ledger.ledger import Ledger
from ledger.plan import CommandEngine
from ledger.seals import Sealer
from ledger.store.sqlite import Database, SQLiteRecorder
from ledger.tokens import Tokens
from projections import wire
from projections.documents import Documents
from projections.errors import ProjectionError
from projections.follow import Follower
from projections.rebuild import Live
from projections.sql.pool import Limits, Pool
from projections.tensorboard import Curves
from projections.warehouse import Warehouse
from projections.warehouse.publish import Publisher

CATCH_UP_SECONDS = 2.0  # so long a reader waits for what was stored before it asked
REST_SECONDS = 0.1  # of the warehouse between two commits that nobody waits for
PUBLISH_SECONDS = 30.0  # so long one waits for a copy of it
ADVISORY = frozenset({"price book"})  # checks of what a server is ready without


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
            self.documents.name: Follower(self.ledger, self.documents),
            # A commit of the warehouse takes 7 ms of one step, and 9 ms of ten (2026-11-30).
            self.warehouse.name: Follower(self.ledger, self.warehouse, rest_seconds=REST_SECONDS),
        }
        self.curves = Curves(self.ledger)
        copy = home / "analytics.duckdb"
        self.publisher = Publisher(self.warehouse, copy)
        self.queries = Pool(
            copy,
            Limits(settings.sql_seconds, settings.sql_memory),
            workers=settings.sql_workers,
        )
        self.prices = PriceBook(home / "prices.toml")
        self.grafana = Grafana(settings, home / "grafana.key", utc_now)
        self.pool = DevicePool(settings.devices)
        self.gpus = {gpu.slot: gpu for gpu in gpus.found()}
        self.artifacts = ArtifactStore(settings.artifacts or f"file://{home.resolve()}/snapshots")
        self.attempts = home.resolve() / "attempts"
        self.branches = Branches(self.ledger)
        self.brancher = Brancher(self.ledger, self.branches, self.artifacts)
        self.datasets = Datasets(self.ledger)
        self.checker = Checker(home.resolve() / ROWS, home.resolve() / DATASETS)
        self.keeper = Keeper(
            self.ledger,
            self.branches,
            self.artifacts,
            attempts=self.attempts,
            restores=home.resolve() / "restores",
            monotonic=time.monotonic,
        )
        self.dispatcher = Dispatcher(
            self.ledger,
            LocalLauncher(home, self.gpus.values(), rank_seconds=settings.rank_seconds),
            self.pool,
            self.keeper,
            preparations=settings.preparations,
            secret=token_file(home / "secret").encode(),
            clock=utc_now,
            monotonic=time.monotonic,
        )
        self.tokens = Tokens(self.ledger, clock=utc_now)
        self.hub = Hub(self.ledger)
        self.auditor = Auditor(
            audit.Parts(
                self.ledger,
                self._database.path,
                self.documents,
                self.warehouse,
                self.publisher,
                self.followers,
                self.catch_up,
            )
        )
        self.rebuilder = Rebuilder(
            rebuild.Parts(
                self.ledger,
                self._database.path,
                Live(self.documents, self.warehouse),
                self.publisher,
            ),
            home / EXCHANGE,
        )
        self.exchange = Exchange(
            exchange.Parts(
                self.ledger,
                self._database,
                self.documents,
                self.warehouse,
                self.artifacts,
                Rows(self.datasets, home / DATASETS),
                self.catch_up,
            ),
            home / EXCHANGE,
            utc_now,
        )
        self.seal_key = home / "seal.key"
        sealer = Sealer(
            self.ledger,
            every_events=settings.seal_events,
            every_seconds=60 * settings.seal_minutes,
            monotonic=time.monotonic,
            key=lambda: signing.read_key(self.seal_key),
        )
        self.sealing = Rounds("sealer", self.ledger, sealer.work)

    def start(self) -> None:
        """Begin to follow the ledger and to work on what has not ended."""
        self.exchange.clear()
        for follower in self.followers.values():
            follower.start()
        self.publisher.start()
        self.keeper.rounds.start()
        self.brancher.rounds.start()
        self.sealing.start()
        self.dispatcher.rounds.start()
        self.hub.start()

    def stop(self) -> None:
        """Stop every thread, then close the files; attempts go on without us."""
        self.hub.stop()
        self.queries.close()
        self.dispatcher.rounds.stop()
        self.keeper.rounds.stop()
        self.brancher.rounds.stop()
        self.sealing.stop()
        for follower in self.followers.values():
            follower.stop()
        self.publisher.stop()
        self.warehouse.close()
        self._database.close()

    # -- what routes ask

    def check(self, document: Any, *, role: str) -> plans.Plan:
        """The plan that ``document`` says, if this server can carry it out for who has ``role``.

        Raises:
            PlanError: it cannot.
        """
        plan = plans.parse(document)
        devices, slots = plan.execution.devices, len(self.pool.slots)
        if devices > slots:
            raise PlanError(
                [f"execution.devices is {devices}, and this server has {slots}"],
            )
        if isinstance(plan.engine, CommandEngine) and not self.settings.allow_command_engine:
            _check_command(role, is_local=self.settings.is_local)
        return plan

    def find(self, prefix: str) -> RunId:
        """The run whose id is or begins with ``prefix``.

        Raises:
            NotFoundError: there is none.
            AmbiguousIdError: there are several.
            ProblemError: one may be too new to be known.
        """
        is_id = ids.may_begin(prefix, ids.RUN_DIGITS)
        found = self.documents.find(prefix, limit=ids.CANDIDATES) if is_id else []
        if is_id and not found:
            is_current = self.catch_up("documents", self.ledger.position())
            found = self.documents.find(prefix, limit=ids.CANDIDATES)
            if not found and not is_current:
                raise ProblemError(NOT_READY, "the newest runs cannot be read just now")
        run_id = ids.only(prefix, found, "runs")
        if run_id is None:
            hint = NotFoundError.HINT
            if len(prefix) < ids.MIN_PREFIX:
                hint = f"an id is named by {ids.MIN_PREFIX} of its first digits at least; {hint}"
            raise NotFoundError(f"there is no run {prefix[:80]!r}", hint)
        return RunId(run_id)

    def record(self, run_id: str, *, attempt: int | None = None) -> dict[str, Any]:
        """The record of a run, with what was stored before it was asked for.

        Raises:
            NotFoundError: there is no such run.
            ProblemError: there is no such attempt, whose settings are asked for.
        """
        if attempt is not None:
            self.attempt(run_id, attempt)
        self.catch_up("documents", self.ledger.position())
        record = self.documents.get(run_id, attempt)
        if record is None:
            raise NotFoundError(f"there is no run {run_id}", NotFoundError.HINT)
        return self.priced(record) | {"liveness": self.dispatcher.liveness(run_id), "asOf": None}

    def priced(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with what the run cost in money, by the price book as it is now."""
        paid = money(record, self.prices.prices(), profile=self.settings.device_profile)
        return record | {"cost": record["cost"] | {"money": paid}}

    def attempt(self, run_id: str, number: int | None = None) -> int:
        """The number of an attempt that there is; the newest one where none is asked for.

        Raises:
            ProblemError: there is no such attempt; the sentence names those that there are.
        """
        newest = self.ledger.run(run_id).attempt
        if newest is None:
            raise ProblemError(ATTEMPT_NOT_FOUND, f"run {run_id} has had no attempt yet")
        if number is not None and number > newest.number:
            raise ProblemError(
                ATTEMPT_NOT_FOUND,
                f"run {run_id} has no attempt {number}; it has {_numbers(newest.number)}",
            )
        return newest.number if number is None else number

    def job(
        self, run_id: str, *, attempt: int | None = None, preparation: int | None = None
    ) -> Job:
        """The job that is asked for; else the newest attempt, or preparation before the first.

        Raises:
            ProblemError: there is no such job; the sentence names those that there are.
        """
        state = self.ledger.run(run_id)
        newest = state.preparation
        is_first = attempt is None and state.attempt is None and newest is not None
        if preparation is None and not is_first:
            return Job(self.attempt(run_id, attempt))
        if newest is None or (preparation or 1) > newest.number:
            there = "none" if newest is None else _numbers(newest.number)
            raise ProblemError(
                PREPARATION_NOT_FOUND,
                f"run {run_id} has no preparation {preparation}; it has {there}",
            )
        return Job(preparation or newest.number, "preparation")

    def snapshots(self, run_id: str) -> list[dict[str, Any]]:
        """The snapshots of a run, newest first, with what was stored before it was asked for."""
        self.catch_up("documents", self.ledger.position())
        return self.documents.snapshots(run_id)[::-1]

    def snapshot(self, prefix: str) -> dict[str, Any]:
        """The snapshot whose id is or begins with ``prefix``, of whatever run it is.

        Raises:
            NoSnapshotError: there is none.
            AmbiguousIdError: there are several.
            ProblemError: one may be too new to be known.
        """
        is_id = ids.may_begin(prefix, ids.SNAPSHOT_DIGITS)
        is_current = self.catch_up("documents", self.ledger.position())
        found = self.documents.snapshot(prefix) if is_id else []
        if is_id and not found and not is_current:
            raise ProblemError(NOT_READY, "the newest snapshots cannot be read just now")
        if not found:
            raise NoSnapshotError(f"there is no snapshot {prefix[:80]!r}", NoSnapshotError.HINT)
        ids.only(prefix, [each["snapshotId"] for each in found], "snapshots")
        return found[0]

    def catch_up(self, projection: str, position: int) -> bool:
        """Wait for a projection to reach ``position``, but not for long; whether it did."""
        return self.followers[projection].wait_for(position, CATCH_UP_SECONDS)

    def publish(self) -> None:
        """Have the copy for analysts hold everything that is recorded by now.

        Raises:
            ProblemError: it does not, in time.
        """
        position = self.ledger.position()
        is_current = self.catch_up("warehouse", position)
        if not is_current or not self.publisher.wait_for(position, PUBLISH_SECONDS):
            raise ProblemError(NOT_READY, "the newest events cannot be published just now")

    def publish_ends(self) -> None:
        """Have the copy for analysts hold every run that has ended, if that can be had in time.

        Whoever waited for a run and then asks would else find the moment before its end.
        """
        self.catch_up("warehouse", self.ledger.position())
        self.publisher.wait_for_ends(PUBLISH_SECONDS)

    def copy(self) -> dict[str, Any]:
        """Where the copy for analysts is, how far it goes, and what a query of it may have."""
        path = self.queries.path
        if self.publisher.position() < 0:
            self.publish()
        return {
            "path": str(path.absolute()),
            "position": self.publisher.position(),
            "publishedAt": wire.moment(path.stat().st_mtime_ns // 1_000_000),
            "ledgerPosition": self.ledger.position(),
            "seconds": self.settings.sql_seconds,
            "memoryBytes": int(self.settings.sql_memory),
            "workers": self.settings.sql_workers,
        }

    def checks(self) -> list[dict[str, Any]]:
        """Whether each part of the server works."""
        failures: dict[str, Exception | None] = {
            name: follower.failure for name, follower in self.followers.items()
        }
        failures["published copy"] = self.publisher.failure
        failures["dispatch"] = self.dispatcher.rounds.failure
        failures["snapshots"] = self.keeper.rounds.failure
        failures["branches"] = self.brancher.rounds.failure
        failures["seals"] = self.sealing.failure
        fault = self.prices.fault()
        free = os.statvfs(self.settings.home)
        free_bytes = free.f_bavail * free.f_frsize
        return [
            {"name": "disk", "ok": free_bytes > 2**28, "detail": f"{free_bytes // 2**20} MiB free"},
            *(
                {
                    "name": name,
                    "ok": failure is None,
                    "detail": _said(failure),
                }
                for name, failure in failures.items()
            ),
            {"name": "price book", "ok": fault is None, "detail": fault or "works"},
        ]


def _said(failure: Exception | None) -> str:
    """What a check says of a part; of a fault that has no sentence for people, its kind."""
    if failure is None:
        return "works"
    return str(failure) if isinstance(failure, ProjectionError) else type(failure).__name__


def _check_command(role: str, *, is_local: bool) -> None:
    """Refuse a program for whom it would be a way to more: it reads what the server can read."""
    if not is_local:
        raise PlanError(["engine.command is not allowed on a server that others can reach"])
    if role != "operator":
        raise PlanError(
            [
                f"engine.command needs the role operator here, not {role}, unless the server's "
                "setting allow_command_engine is on"
            ]
        )


def _numbers(newest: int) -> str:
    """The numbers that there are."""
    return "1" if newest == 1 else f"1 to {newest}"
