"""What may happen to the snapshots of a run: decisions over its state, as pure as ``lifecycle``."""

from collections.abc import Collection, Mapping

from ledger.errors import RefusedError
from ledger.events import (
    Artifact,
    Event,
    SnapshotCommitted,
    SnapshotDamaged,
    SnapshotOffered,
    SnapshotPinned,
    SnapshotRejected,
    SnapshotReported,
    SnapshotsSuperseded,
    SnapshotSwept,
    SnapshotUnpinned,
)
from ledger.lifecycle import settle
from ledger.run import Offer, RunState, Snapshot, Stamp
from ledger.story import Story


def offer_snapshot(
    state: RunState, stamp: Stamp, *, attempt: int, reported: SnapshotReported
) -> list[Event]:
    """Note that files wait to be committed."""
    story = Story(state, stamp)
    facts = reported.model_dump(include={"step", "path", "artifacts", "epoch", "writer"})
    story.tell(SnapshotOffered, attempt=attempt, **facts)
    return story.events


def supersede_snapshots(state: RunState, stamp: Stamp, *, step: int) -> list[Event]:
    """Note that the trainer went back by itself; nothing where no snapshot is later."""
    story = Story(state, stamp)
    if any(each.step > step and not each.is_superseded for each in state.snapshots + state.offers):
        story.tell(SnapshotsSuperseded, step=step)
    return story.events


def commit_snapshot(  # noqa: PLR0913 (one for each fact)
    state: RunState,
    stamp: Stamp,
    *,
    offer: Offer,
    snapshot_id: str,
    uri: str,
    size_bytes: Mapping[Artifact, int],
    digests: Mapping[Artifact, str],
    held: Collection[str] = frozenset(),
) -> list[Event]:
    """Make the oldest offer a snapshot, and give up what it leaves over.

    Nothing when that was decided already.
    """
    if not _is_next(state, offer):
        return []
    story = Story(state, stamp)
    if any(each.snapshot_id == snapshot_id for each in state.snapshots):
        reason = "the same files are a snapshot already"
        _reject(story, offer, reason)
    else:
        story.tell(
            SnapshotCommitted,
            snapshot_id=snapshot_id,
            attempt=offer.attempt,
            step=offer.step,
            path=offer.path,
            artifacts=offer.artifacts,
            epoch=offer.epoch,
            uri=uri,
            size_bytes=size_bytes,
            digests=digests,
        )
        _sweep(story, held)
    settle(story)
    return story.events


def reject_snapshot(state: RunState, stamp: Stamp, *, offer: Offer, reason: str) -> list[Event]:
    """Give up the oldest offer; nothing when that was decided already."""
    if not _is_next(state, offer):
        return []
    story = Story(state, stamp)
    _reject(story, offer, reason)
    settle(story)
    return story.events


def _is_next(state: RunState, offer: Offer) -> bool:
    """Whether ``offer`` is the oldest one, though it may have been superseded meanwhile."""
    return bool(state.offers) and state.offers[0].ordinal == offer.ordinal


def _reject(story: Story, offer: Offer, reason: str) -> None:
    story.tell(
        SnapshotRejected,
        attempt=offer.attempt,
        step=offer.step,
        path=offer.path,
        reason=reason,
    )


def damage_snapshot(state: RunState, stamp: Stamp, *, snapshot_id: str, reason: str) -> list[Event]:
    """Note that a snapshot cannot be used; nothing when that is known."""
    story = Story(state, stamp)
    if not state.snapshot(snapshot_id).is_damaged:
        story.tell(SnapshotDamaged, snapshot_id=snapshot_id, reason=reason)
    return story.events


def pin_snapshot(state: RunState, stamp: Stamp, *, snapshot_id: str, pinned: bool) -> list[Event]:
    """Keep a snapshot whatever the plan says, or no longer; nothing when it is so already.

    Raises:
        RefusedError: there is nothing left of it to keep.
    """
    snapshot = state.snapshot(snapshot_id)
    if pinned and not snapshot.artifacts:
        raise RefusedError(f"snapshot {snapshot_id} was swept: nothing is left of it")
    story = Story(state, stamp)
    if snapshot.is_pinned is not pinned:
        story.tell(SnapshotPinned if pinned else SnapshotUnpinned, snapshot_id=snapshot_id)
    return story.events


def sweep_snapshots(
    state: RunState, stamp: Stamp, *, held: Collection[str] = frozenset()
) -> list[Event]:
    """Give up what the plan's keep counts leave over, oldest first, in the order of the ledger.

    Never given up are the saved snapshot, pinned and ``held`` ones, and the one that the open
    attempt began from.
    """
    story = Story(state, stamp)
    _sweep(story, held)
    return story.events


def _sweep(story: Story, held: Collection[str]) -> None:
    state = story.state
    execution = state.plan["execution"]
    old_weights = _beyond(state, "weights", execution["keepWeights"])
    old_states = _beyond(state, "trainingState", execution["keepTrainingState"])
    for snapshot in state.snapshots:
        gone: set[Artifact] = set()
        if snapshot.snapshot_id in old_states:
            gone.add("trainingState")
        if snapshot.snapshot_id in old_weights:
            gone |= snapshot.artifacts  # training state is of no use without its weights
        if gone and not _is_safe(state, snapshot, held):
            story.tell(
                SnapshotSwept,
                snapshot_id=snapshot.snapshot_id,
                artifacts=tuple(sorted(gone)),
                freed_bytes=sum(snapshot.size_bytes.get(each, 0) for each in gone),
            )


def _beyond(state: RunState, artifact: Artifact, count: int | None) -> set[str]:
    """The snapshots whose ``artifact`` is not among the newest ``count``; None keeps all."""
    having = [each.snapshot_id for each in state.snapshots if artifact in each.artifacts]
    return set(having[: max(len(having) - count, 0)] if count is not None else ())


def _is_safe(state: RunState, snapshot: Snapshot, held: Collection[str]) -> bool:
    attempt = state.open_attempt
    is_in_use = attempt is not None and attempt.snapshot_id == snapshot.snapshot_id
    is_held = snapshot.snapshot_id in held
    return snapshot.is_pinned or snapshot == state.saved or is_in_use or is_held
