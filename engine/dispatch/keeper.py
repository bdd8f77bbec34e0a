"""The keeper: commits what workers save, readies what attempts go on from, and sweeps.

Its to-do is whatever the ledger says: offers that nobody decided, and runs that wait for another
attempt. So a restart forgets nothing; what was half done is done again, with the same result.
"""

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engine.dispatch.artifacts import ArtifactStore, DamagedError, Saved, SaveError, StoreError
from engine.dispatch.rounds import Rounds, each_of
from ledger import lifecycle, snapshots
from ledger.branch import NEEDS
from ledger.branches import Branches
from ledger.events import Artifact, Origin
from ledger.ledger import Ledger
from ledger.run import Ending, Offer, RunState, Snapshot

PRINCIPAL = "keeper"
ARTIFACTS: tuple[Artifact, ...] = ("weights", "trainingState")
PATIENCE_SECONDS = 600.0  # with a store that is away, until a run goes on without the snapshot


class Start(NamedTuple):
    """What the next attempt of a run goes on from."""

    attempt: int
    snapshot_id: str | None  # None: from the start


class Keeper:
    """Looks after the snapshots of every run, in a thread of its own: files take their time."""

    def __init__(
        self,
        ledger: Ledger,
        branches: Branches,
        store: ArtifactStore,
        *,
        attempts: Path,
        restores: Path,
        monotonic: Callable[[], float],
    ) -> None:
        """``attempts`` has a folder for each run and attempt; ``restores`` will have one too."""
        self._ledger = ledger
        self._branches = branches
        self._store = store
        self._attempts = attempts
        self._restores = restores
        self._monotonic = monotonic
        self._away: dict[str, float] = {}  # run: since when its oldest offer waits for the store
        self._starts: dict[str, Start] = {}
        self._tidied: dict[str, int] = {}  # run: newest attempt that nothing is left of
        self._working = threading.Lock()
        self.rounds = Rounds("keeper", ledger, self.work)

    def work(self) -> None:
        """Commit every offer, and ready every run that waits for another attempt.

        Raises:
            StoreError: the store is away; what needs it waits for it.
        """
        each_of(self._ledger.open_runs(), self._look_after)

    def _look_after(self, run_id: str) -> None:
        with self._working:
            self._attend(run_id)

    def _attend(self, run_id: str) -> None:
        while offers := self._ledger.run(run_id).offers:
            self._decide_offer(run_id, offers[0])
        state = self._ledger.run(run_id)
        if state.attempt is not None and state.open_attempt is None:
            self._tidy(state, state.attempt.number)
        if state.wants_devices and self.start_of(state) is None:
            self._ready(state)

    # -- committing

    def _decide_offer(self, run_id: str, offer: Offer) -> None:
        """Make a snapshot of what a worker wrote, or say why it is none.

        Raises:
            StoreError: the store is away; there is time to try again.
        """
        source = Path(offer.path)
        facts = {
            "attempt": offer.attempt,
            "step": offer.step,
            "epoch": offer.epoch,
            "writer": offer.writer,
        }
        try:
            saved = self._store.save(run_id, source, artifacts=offer.artifacts, facts=facts)
        except SaveError as error:
            self._reject(run_id, offer, str(error))
        except StoreError as error:
            if self._is_patient(run_id):
                raise
            self._reject(run_id, offer, str(error))
        else:
            self._commit(run_id, offer, saved)
            self._delete_source(run_id, offer)
            self._delete_swept(run_id)
        self._away.pop(run_id, None)

    def _delete_source(self, run_id: str, offer: Offer) -> None:
        """Remove what is in the store now; a folder elsewhere is the trainer's own."""
        output = self._output(run_id, offer.attempt).resolve()
        source = Path(offer.path).resolve()
        if output in source.parents:
            shutil.rmtree(source, ignore_errors=True)

    def _output(self, run_id: str, attempt: int) -> Path:
        return self._attempts / run_id / f"a{attempt}" / "output"

    def _is_patient(self, run_id: str) -> bool:
        now = self._monotonic()
        return now - self._away.setdefault(run_id, now) < PATIENCE_SECONDS

    def _commit(self, run_id: str, offer: Offer, saved: Saved) -> None:
        self._ledger.decide(
            run_id,
            lambda state, stamp: snapshots.commit_snapshot(
                state,
                stamp,
                offer=offer,
                snapshot_id=saved.snapshot_id,
                uri=saved.uri,
                size_bytes=saved.size_bytes,
                digests=saved.digests,
                held=self._branches.held(),
            ),
            principal=PRINCIPAL,
        )

    def _reject(self, run_id: str, offer: Offer, reason: str) -> None:
        self._ledger.decide(
            run_id,
            lambda state, stamp: snapshots.reject_snapshot(
                state, stamp, offer=offer, reason=reason
            ),
            principal=PRINCIPAL,
        )

    # -- going on

    def start_of(self, state: RunState) -> Start | None:
        """What the next attempt goes on from; None while that is being found out."""
        if state.attempt is None and state.origin is None:
            return Start(1, None)
        start = self._starts.get(state.run_id)
        return start if start and start.attempt == _next(state) else None

    def folder(self, run_id: str, attempt: int) -> Path:
        """Where an attempt finds the files that it goes on from."""
        return self._restores / run_id / f"a{attempt}"

    def _ready(self, state: RunState) -> None:
        """Put the newest snapshot that is still whole where the next attempt will look for it.

        Raises:
            StoreError: the store is away; the run waits for it.
        """
        folder = self.folder(state.run_id, _next(state))
        try:
            while snapshot := state.saved:
                try:
                    self._store.fetch(state.run_id, snapshot.snapshot_id, folder)
                except DamagedError as error:
                    state = self._mark_damaged(state.run_id, snapshot, str(error))
                else:
                    break
            if snapshot is None and state.origin is not None:
                self._fetch_origin(state.origin, folder)
        except StoreError as error:
            self._say_why_it_waits(state.run_id, str(error))
            raise
        except DamagedError as error:
            self._give_up(state.run_id, str(error))
            return
        snapshot_id = snapshot.snapshot_id if snapshot else None
        self._starts[state.run_id] = Start(_next(state), snapshot_id)

    def _fetch_origin(self, origin: Origin, folder: Path) -> None:
        """What the child's first update begins from; it is held, and was verified before."""
        needed = [each for each in ARTIFACTS if each in NEEDS[origin.restore]]
        self._store.fetch(origin.parent, origin.snapshot_id, folder, artifacts=needed)

    def _give_up(self, run_id: str, fault: str) -> None:
        """End a branch whose source is damaged: it has nothing else to begin from."""
        ending = Ending(
            "failed",
            "input",
            "source-damaged",
            f"the snapshot that the run begins from is damaged: {fault}",
            "Branch from another snapshot.",
        )
        self._ledger.decide(
            run_id,
            lambda state, stamp: lifecycle.fail(state, stamp, ending=ending),
            principal=PRINCIPAL,
        )

    def _say_why_it_waits(self, run_id: str, because: str) -> None:
        self._ledger.decide(
            run_id,
            lambda state, stamp: lifecycle.wait(state, stamp, because=because),
            principal=PRINCIPAL,
        )

    def _mark_damaged(self, run_id: str, snapshot: Snapshot, reason: str) -> RunState:
        return self._ledger.decide(
            run_id,
            lambda state, stamp: snapshots.damage_snapshot(
                state, stamp, snapshot_id=snapshot.snapshot_id, reason=reason
            ),
            principal=PRINCIPAL,
        )

    # -- what is left over

    def sweep(self, run_id: str, *, principal: str) -> int:
        """Give up what the plan's keep counts leave over, and delete what nothing refers to.

        Safe to repeat, also after a crash in between. Answers the bytes that are free now.
        """
        with self._working:
            self._ledger.decide(
                run_id,
                lambda state, stamp: snapshots.sweep_snapshots(
                    state, stamp, held=self._branches.held()
                ),
                principal=principal,
            )
            return self._delete_swept(run_id)

    def _delete_swept(self, run_id: str) -> int:
        """Delete files of artifacts that the ledger gave up, and folders that it never knew."""
        known = {each.snapshot_id: each for each in self._ledger.run(run_id).snapshots}
        freed = 0
        for snapshot_id in self._store.kept(run_id):
            snapshot = known.get(snapshot_id)
            if snapshot is None or not snapshot.artifacts:
                freed += self._store.discard(run_id, snapshot_id)
            elif gone := set(snapshot.size_bytes) - snapshot.artifacts:
                with suppress(DamagedError):  # nobody knows any more which files those are
                    freed += self._store.remove(run_id, snapshot_id, gone)
        return freed

    def _tidy(self, state: RunState, attempt: int) -> None:
        """Remove what a closed attempt left behind: saves that it broke off, and its own copy."""
        if self._tidied.get(state.run_id, 0) >= attempt:
            return
        for folder in self._output(state.run_id, attempt).glob("*.partial"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.folder(state.run_id, attempt), ignore_errors=True)
        self._tidied[state.run_id] = attempt


def _next(state: RunState) -> int:
    """The number of the run's next attempt."""
    return (state.attempt.number if state.attempt else 0) + 1
