"""Makers of run states: what a run looks like after a piece of its life."""

from functools import reduce
from typing import Any

from ledger import lifecycle, run, snapshots
from ledger.events import Artifact, Event, SnapshotReported
from ledger.run import Ending, RunState, Stamp
from tests import make

LATER = Stamp(make.moment(100), "tester")
DONE = Ending("completed", "completed", "completed", "everything that the plan asked for is done")
LOST = Ending("failed", "infrastructure", "vanished", "it stopped", "start it", may_retry=True)
REFUSED = Ending("failed", "input", "refused", "an example ends with a user message", "correct it")
PAUSED = Ending("paused", "stopped", "paused", "the run was paused")
BOTH: tuple[Artifact, ...] = ("weights", "trainingState")
SIZES: dict[Artifact, int] = {"weights": 10, "trainingState": 20}


def given(*events: Event) -> RunState:
    """The state of a run whose life so far is ``events``."""
    recorded = make.recorded(*events)
    state = reduce(run.evolve, (each.event for each in recorded), None)
    assert state is not None
    return state


def after(state: RunState, events: list[Event]) -> RunState:
    """The state after more events."""
    return reduce(run.evolve, events, state)


def told(events: list[Event]) -> list[Any]:
    """The kinds of the events, with the phase where there is one."""
    return [getattr(event, "phase", type(event).__name__) for event in events]


def opened(state: RunState) -> RunState:
    """The state with its next attempt open, from the snapshot that it would go on from."""
    events = lifecycle.open_attempt(
        state,
        LATER,
        devices=("cpu:0",),
        launcher="local",
        token_sha256="0" * 64,
        snapshot_id=state.saved.snapshot_id if state.saved else None,
    )
    return after(state, events)


def preparing(state: RunState) -> RunState:
    """The state with its next preparation open."""
    events = lifecycle.open_preparation(state, LATER, launcher="local", token_sha256="0" * 64)
    return after(state, events)


def prepared(state: RunState, ending: Ending = DONE) -> RunState:
    """The state once its next preparation has ended."""
    state = preparing(state)
    return after(state, close(state, ending))


def started(state: RunState) -> RunState:
    """The state once the job of its open attempt is at work."""
    return after(state, lifecycle.start_job(state, LATER, host="here", pid=7))


def trained(state: RunState) -> RunState:
    """The state once its next attempt trains."""
    state = started(opened(state))
    return after(state, lifecycle.begin_training(state, LATER))


def offered(state: RunState, step: int, artifacts: tuple[Artifact, ...] = BOTH) -> RunState:
    """The state after its open attempt wrote files of update ``step``."""
    assert state.attempt is not None
    reported = SnapshotReported(
        originator_id=f"run/{state.run_id}/a{state.attempt.number}",
        originator_version=1,
        timestamp=LATER.now,
        principal="attempt",
        step=step,
        path=f"/output/checkpoint-{step}",
        artifacts=artifacts,
    )
    events = snapshots.offer_snapshot(state, LATER, attempt=state.attempt.number, reported=reported)
    return after(state, events)


def commit(state: RunState, name: str) -> list[Event]:
    """What follows when the oldest offer becomes the snapshot ``name``."""
    offer = state.offers[0]
    return snapshots.commit_snapshot(
        state,
        LATER,
        offer=offer,
        snapshot_id=name,
        uri=f"file:///store/{name}",
        size_bytes={kind: SIZES[kind] for kind in offer.artifacts},
        digests=dict.fromkeys(offer.artifacts, "0" * 64),
    )


def saved(
    state: RunState, step: int, name: str = "", artifacts: tuple[Artifact, ...] = BOTH
) -> RunState:
    """The state after its open attempt saved update ``step``, as the snapshot ``name``."""
    state = offered(state, step, artifacts)
    return after(state, commit(state, name or f"s{step}"))


def close(state: RunState, ending: Ending, step: int = 0) -> list[Event]:
    """What follows when the open job ends, its newest update being ``step``."""
    return lifecycle.close_job(
        state, LATER, ending=ending, lines=step, step=step, last_sign_at=LATER.now
    )
