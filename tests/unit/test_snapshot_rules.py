"""Which snapshot a run goes on from, and which it gives up."""

import pytest

from ledger import lifecycle, snapshots
from ledger.errors import NotFoundError, RefusedError
from ledger.events import Event, Restored, SnapshotSwept
from ledger.run import RunState
from tests import make
from tests.stories import LATER, LOST, after, close, commit, given, offered, saved, told, trained

KEEP_ONE = {"keepTrainingState": 1, "keepWeights": 1}


def training(**execution: object) -> RunState:
    return trained(given(make.submitted(execution=execution)))


def saved_step(state: RunState) -> int | None:
    return state.saved.step if state.saved else None


def swept(events: list[Event]) -> dict[str, tuple[str, ...]]:
    return {each.snapshot_id: each.artifacts for each in events if isinstance(each, SnapshotSwept)}


def kept(state: RunState) -> dict[str, list[str]]:
    return {each.snapshot_id: sorted(each.artifacts) for each in state.snapshots if each.artifacts}


def restored_to(state: RunState, step: int) -> RunState:
    """The state after its trainer went back by itself."""
    return after(state, snapshots.supersede_snapshots(state, LATER, step=step))


def test_a_run_goes_on_from_its_newest_whole_snapshot() -> None:
    """S27, I9: nothing counts before it is committed; a damaged one gives way to the one before."""
    state = saved(saved(training(), 20), 40)

    assert saved_step(offered(state, 60)) == 40
    damaged = after(
        state,
        snapshots.damage_snapshot(state, LATER, snapshot_id="s40", reason="a file differs"),
    )
    assert saved_step(damaged) == 20
    assert snapshots.damage_snapshot(damaged, LATER, snapshot_id="s40", reason="again") == []


def test_a_snapshot_of_weights_alone_cannot_be_resumed_from() -> None:
    """I11: it is listed, and the run goes on from an older one that is whole."""
    state = saved(saved(training(), 20), 40, artifacts=("weights",))

    assert saved_step(state) == 20
    assert [each.step for each in state.snapshots] == [20, 40]


def test_a_snapshot_later_than_a_restore_is_not_gone_on_from() -> None:
    """D5: it stays listed; the line of the run does not lead to it any more."""
    state = restored_to(saved(saved(training(), 20), 40), 30)

    assert saved_step(state) == 20
    assert saved_step(saved(state, 35, "later")) == 35
    assert snapshots.supersede_snapshots(state, LATER, step=30) == []


def test_files_offered_before_a_restore_are_superseded_when_they_are_committed() -> None:
    """D5: the copying took longer than the decision to go back."""
    state = restored_to(offered(saved(training(), 20), 40), 30)

    state = after(state, commit(state, "s40"))

    assert saved_step(state) == 20


def test_rotation_goes_by_the_order_of_the_ledger_and_not_by_steps() -> None:
    """C26: 10, 20, 30, back to 10, and 20 again: the new 20 is kept, and the old 30 is not."""
    state = training(keepTrainingState=3, keepWeights=3)
    for step in (10, 20, 30):
        state = saved(state, step)
    state = after(state, close(state, LOST, step=33))
    events = lifecycle.open_attempt(
        state,
        LATER,
        devices=("cpu:0",),
        launcher="local",
        token_sha256="x",
        snapshot_id="s10",
    )
    assert [each.step for each in events if isinstance(each, Restored)] == [10]
    state = after(state, events)
    state.plan["execution"].update(KEEP_ONE)

    state = offered(state, 20)
    events = commit(state, "new20")

    # s10 stays: the open attempt began from it
    assert swept(events) == {
        "s20": ("trainingState", "weights"),
        "s30": ("trainingState", "weights"),
    }
    assert kept(after(state, events)) == {
        "s10": ["trainingState", "weights"],
        "new20": ["trainingState", "weights"],
    }


def test_weights_and_training_state_have_counts_of_their_own() -> None:
    """I10: old training states go first, and say how many bytes that frees."""
    state = training(keepTrainingState=1)
    state = saved(saved(state, 10), 20)

    assert kept(state) == {"s10": ["weights"], "s20": ["trainingState", "weights"]}
    state = offered(state, 30)
    events = commit(state, "s30")
    assert told(events) == ["SnapshotCommitted", "SnapshotSwept"]
    assert events[1].freed_bytes == 20  # type: ignore[attr-defined]


def test_a_sweep_never_takes_what_is_saved_pinned_or_held() -> None:
    """I10, U13: and repeating it gives up nothing more."""
    state = training()
    for step in (10, 20, 30, 40):
        state = saved(state, step)
    state.plan["execution"].update(KEEP_ONE)
    state = after(state, snapshots.pin_snapshot(state, LATER, snapshot_id="s30", pinned=True))
    state = after(
        state, snapshots.damage_snapshot(state, LATER, snapshot_id="s40", reason="differs")
    )
    assert saved_step(state) == 30

    events = snapshots.sweep_snapshots(state, LATER, held={"s20"})

    assert swept(events) == {"s10": ("weights",)}
    assert snapshots.sweep_snapshots(after(state, events), LATER, held={"s20"}) == []


def test_a_pin_is_given_and_taken_once() -> None:
    """I10."""
    state = saved(training(), 10)

    events = snapshots.pin_snapshot(state, LATER, snapshot_id="s10", pinned=True)

    assert told(events) == ["SnapshotPinned"]
    pinned = after(state, events)
    assert snapshots.pin_snapshot(pinned, LATER, snapshot_id="s10", pinned=True) == []
    with pytest.raises(NotFoundError, match="has no snapshot s11"):
        snapshots.pin_snapshot(state, LATER, snapshot_id="s11", pinned=True)


def test_nothing_can_be_pinned_that_is_gone() -> None:
    state = saved(saved(training(**KEEP_ONE), 10), 20)

    with pytest.raises(RefusedError, match="was swept"):
        snapshots.pin_snapshot(state, LATER, snapshot_id="s10", pinned=True)


def test_training_state_goes_with_its_weights() -> None:
    """I10: half a snapshot is of no use, and the run never goes on from one."""
    state = training(keepTrainingState=3, keepWeights=1)
    state = saved(saved(state, 10), 20)

    assert kept(state) == {"s20": ["trainingState", "weights"]}
    damaged = after(
        state, snapshots.damage_snapshot(state, LATER, snapshot_id="s20", reason="differs")
    )
    assert saved_step(damaged) is None
