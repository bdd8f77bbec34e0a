"""The brancher: prepares the children of branches, from what the ledger says is not yet decided."""

from engine.dispatch.artifacts import ArtifactStore, DamagedError
from engine.dispatch.keeper import ARTIFACTS
from engine.dispatch.rounds import Rounds, each_of
from ledger import snapshots
from ledger.branch import NEEDS, BranchState
from ledger.branches import PRINCIPAL, Branches
from ledger.ledger import Ledger


class Brancher:
    """Holds sources, verifies them and submits children, in a thread of its own."""

    def __init__(self, ledger: Ledger, branches: Branches, store: ArtifactStore) -> None:
        self._ledger = ledger
        self._branches = branches
        self._store = store
        self.rounds = Rounds("brancher", ledger, self.work)

    def work(self) -> None:
        """Prepare every branch that was asked for, and release what nobody needs any more.

        Raises:
            StoreError: the store is away; the branches wait for it.
        """
        try:
            each_of(self._branches.undecided(), self._attend)
        finally:
            self._branches.release_ended()

    def _attend(self, token: str) -> None:
        state = self._branches.hold(token)
        if not state.is_decided:
            self._prepare(state)

    def _prepare(self, state: BranchState) -> None:
        """Submit the child, if every byte that it needs is still there."""
        origin = state.origin
        needed = [each for each in ARTIFACTS if each in NEEDS[origin.restore]]
        try:
            self._store.verify(origin.parent, origin.snapshot_id, artifacts=needed)
        except DamagedError as error:
            reason = str(error)
            self._ledger.decide(
                origin.parent,
                lambda parent, stamp: snapshots.damage_snapshot(
                    parent, stamp, snapshot_id=origin.snapshot_id, reason=reason
                ),
                principal=PRINCIPAL,
            )
            self._branches.refuse(
                state.token,
                reason=f"the source is damaged: {reason}",
                advice="branch from another snapshot",
            )
        else:
            self._branches.create(state.token)
