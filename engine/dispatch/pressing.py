"""Pressing: what somebody wants of a run's job, and the force where it does not heed that."""

from engine.dispatch.launcher import JobRef, Launcher
from engine.failures import Request
from ledger.run import RunState

SLACK_SECONDS = 10.0  # beyond the worker's grace, until the launcher is asked to end it


def asked(state: RunState) -> Request | None:
    """What somebody wants of the run's job, if anything."""
    if state.cancel_requested:
        return "cancel"
    return "pause" if state.pause_requested else None


def request(state: RunState) -> str | None:
    """The same in the words that a worker understands."""
    if state.cancel_requested or state.pause_requested == "latest":
        return "stop"
    return "pause" if state.pause_requested else None


class Pressing:
    """Has the launcher end jobs that do not end when they are asked."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._since: dict[str, float] = {}  # run: when its job was asked to end

    def press(self, state: RunState, ref: JobRef, now: float) -> None:
        """Look at a job; ``now``: seconds, monotonic."""
        if asked(state) is None:
            self.forget(state.run_id)
            return
        since = self._since.setdefault(state.run_id, now)
        grace = 2 * state.plan["execution"]["stopGrace"] + SLACK_SECONDS
        if now - since > grace:
            self._launcher.cancel(ref)
            self._since[state.run_id] = now

    def forget(self, run_id: str) -> None:
        """Nothing is wanted of the run's job any more."""
        self._since.pop(run_id, None)
