"""Pacing: how long a run waits between two jobs, so that one that cannot work is no storm."""

from datetime import datetime

from ledger.run import RunState

LONGEST_PAUSE_SECONDS = 30.0  # between two jobs that came to nothing


def is_due(state: RunState, now: datetime) -> bool:
    """Whether it is time for another job: at once, unless the last one got nowhere."""
    if state.closed_at is None or state.tries == 0:
        return True
    if state.attempt is not None and state.last_step > state.attempt.step:
        return True
    pause = min(2.0 ** (state.tries - 1), LONGEST_PAUSE_SECONDS)
    return (now - state.closed_at).total_seconds() >= pause
