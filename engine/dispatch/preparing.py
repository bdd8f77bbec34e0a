"""Preparing: which runs have their rows prepared now; each preparation takes every core."""

from collections.abc import Iterable

from ledger import lifecycle
from ledger.errors import LedgerError, RefusedError
from ledger.ledger import Ledger
from ledger.run import Preparation, RunState


class Preparing:
    """Opens preparations in the order of the runs, so many at a time."""

    def __init__(self, ledger: Ledger, *, at_once: int, launcher: str, principal: str) -> None:
        self._ledger = ledger
        self._at_once = at_once
        self._launcher = launcher
        self._principal = principal
        self._under_way: list[str] = []  # runs whose preparation is open

    def look(self, run_ids: Iterable[str]) -> None:
        """Begin a round: see which of these runs are being prepared."""
        self._under_way = [run_id for run_id in run_ids if self._is_being_prepared(run_id)]

    def _is_being_prepared(self, run_id: str) -> bool:
        try:
            job = self._ledger.run(run_id).open_job
        except LedgerError:  # a run that cannot be read says so when it has its turn
            return False
        return isinstance(job, Preparation)

    def try_to_open(self, state: RunState, *, token_sha256: str) -> RunState | None:
        """The run with its preparation open; None if it has to wait, which it then says."""
        try:
            if len(self._under_way) >= self._at_once:
                self._wait(state)
                return None
            opened = self._ledger.decide(
                state.run_id,
                lambda now, stamp: lifecycle.open_preparation(
                    now, stamp, launcher=self._launcher, token_sha256=token_sha256
                ),
                principal=self._principal,
            )
        except RefusedError:  # it was cancelled or paused since we looked
            return None
        self._under_way.append(state.run_id)
        return opened

    def _wait(self, state: RunState) -> None:
        runs = ", ".join(self._under_way)
        self._ledger.decide(
            state.run_id,
            lambda now, stamp: lifecycle.wait(
                now, stamp, because=f"its turn to be prepared, after run {runs}"
            ),
            principal=self._principal,
        )
