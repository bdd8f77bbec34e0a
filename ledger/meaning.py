"""What a job's reports mean for the life of its run, beside being told."""

from ledger import lifecycle, snapshots
from ledger.attempt import JobHead
from ledger.events import (
    Event,
    Restored,
    SaveFailed,
    SnapshotReported,
    StepReported,
    TrainingBegan,
)
from ledger.run import RunState, Stamp


def of_report(
    state: RunState, stamp: Stamp, *, head: JobHead, event: Event, attempt: int
) -> list[Event]:
    """What a report means for the life of the run; most mean nothing, all those of preparations."""
    match event:
        case TrainingBegan() | StepReported() if not head.has_trained:
            return lifecycle.begin_training(state, stamp)
        case SnapshotReported():
            return snapshots.offer_snapshot(state, stamp, attempt=attempt, reported=event)
        case Restored():
            return snapshots.supersede_snapshots(state, stamp, step=event.step)
        case SaveFailed():
            return lifecycle.fail_pause(state, stamp, reason=event.reason)
    return []
