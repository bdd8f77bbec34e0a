"""Given events, when a decision is made, then these events follow."""

from datetime import timedelta
from functools import reduce

import pytest

from ledger import lifecycle, run
from ledger.errors import EndedError, RefusedError
from ledger.run import Ending, Phase
from tests import make
from tests.stories import (
    DONE,
    LATER,
    LOST,
    PAUSED,
    REFUSED,
    after,
    close,
    commit,
    given,
    offered,
    opened,
    saved,
    started,
    told,
    trained,
)


def test_an_attempt_claims_its_devices_and_is_queued_in_one_breath() -> None:
    """S41: QUEUED after the job was handed over."""
    state = given(make.submitted())

    events = lifecycle.open_attempt(
        state, LATER, devices=("cpu:0",), launcher="local", token_sha256="x"
    )

    assert told(events) == ["AttemptOpened", "QUEUED"]
    assert [event.originator_version for event in events] == [2, 3]


def test_a_second_attempt_is_refused_while_one_is_open() -> None:
    state = opened(given(make.submitted()))

    with pytest.raises(RefusedError, match="is open"):
        opened(state)


def test_a_run_prepares_once_its_job_has_begun() -> None:
    """S42: after QUEUED, PREPARING."""
    state = opened(given(make.submitted()))

    assert told(lifecycle.start_job(state, LATER, host="here", pid=7)) == [
        "JobStarted",
        "PREPARING",
    ]
    assert lifecycle.start_job(started(state), LATER, host="here", pid=7) == []


def test_training_begins_once() -> None:
    state = started(opened(given(make.submitted())))

    events = lifecycle.begin_training(state, LATER)

    assert told(events) == ["TRAINING"]
    assert lifecycle.begin_training(reduce(run.evolve, events, state), LATER) == []


def test_a_run_that_waits_says_for_what_and_says_it_once() -> None:
    state = given(make.submitted())

    events = lifecycle.wait(state, LATER, because="1 device; cpu:0 is held by run aa")

    assert told(events) == ["WAITING"]
    assert events[0].waiting_for == "1 device; cpu:0 is held by run aa"  # type: ignore[attr-defined]
    again = reduce(run.evolve, events, state)
    assert lifecycle.wait(again, LATER, because="something else") == []


def test_a_run_that_holds_nothing_is_cancelled_at_once() -> None:
    """I3: ends in CANCELLED."""
    events = lifecycle.request_cancel(given(make.submitted()), LATER)

    assert told(events) == ["CancelRequested", "RunCancelled"]


def test_a_run_that_trains_is_cancelled_when_its_job_has_stopped() -> None:
    """I3: returns when accepted; devices are freed with the attempt."""
    state = started(opened(given(make.submitted())))

    asked = lifecycle.request_cancel(state, LATER)
    state = reduce(run.evolve, asked, state)
    ended = lifecycle.close_job(
        state,
        LATER,
        ending=Ending("cancelled", "stopped", "cancelled", "the run was cancelled"),
        lines=3,
        step=3,
        last_sign_at=LATER.now,
    )

    assert told(asked) == ["CancelRequested", "CANCELLING"]
    assert lifecycle.request_cancel(state, LATER) == []
    assert told(ended) == ["AttemptClosed", "RunCancelled"]


def test_what_has_ended_never_changes() -> None:
    """U3: terminal phases never flip."""
    state = started(opened(given(make.submitted())))
    state = reduce(
        run.evolve,
        lifecycle.close_job(state, LATER, ending=DONE, lines=0, step=0, last_sign_at=LATER.now),
        state,
    )

    assert state.phase is Phase.COMPLETED
    assert (
        lifecycle.close_job(state, LATER, ending=DONE, lines=0, step=0, last_sign_at=LATER.now)
        == []
    )
    assert lifecycle.begin_training(state, LATER) == []
    with pytest.raises(EndedError, match="has ended: it is COMPLETED"):
        lifecycle.request_cancel(state, LATER)
    with pytest.raises(RefusedError, match="is COMPLETED and cannot become QUEUED"):
        opened(state)


def test_an_event_happened_when_the_worker_says_but_never_after_it_was_stored() -> None:
    """C42: phase times are the events' own."""
    state = opened(given(make.submitted()))
    early, late = make.moment(50), LATER.now + timedelta(hours=1)

    said = lifecycle.start_job(state, LATER._replace(reported_at=early), host="here", pid=7)
    ahead = lifecycle.start_job(state, LATER._replace(reported_at=late), host="here", pid=7)

    assert {event.at for event in said} == {early}
    assert {event.at for event in ahead} == {LATER.now}


# -- attempts --------------------------------------------------------------------------------------


def test_a_worker_that_was_lost_is_followed_by_another_attempt_from_what_is_saved() -> None:
    """I6, S60: the run keeps its identity; the second attempt goes back to update 20."""
    state = saved(trained(given(make.submitted())), 20)

    ended = close(state, LOST, step=27)
    state = after(state, ended)
    again = lifecycle.open_attempt(
        state,
        LATER,
        devices=("cpu:0",),
        launcher="local",
        token_sha256="x",
        snapshot_id="s20",
    )

    assert told(ended) == ["AttemptClosed", "WAITING"]
    assert told(again) == ["AttemptOpened", "Restored", "QUEUED"]
    restored = again[1]
    assert (restored.attempt, restored.step) == (2, 20)  # type: ignore[attr-defined]
    assert after(state, again).attempt.step == 20  # type: ignore[union-attr]


def test_an_attempt_without_a_snapshot_goes_back_to_the_start() -> None:
    """D6: the restore is said, so that what came before it is superseded at once."""
    state = trained(given(make.submitted()))
    state = after(state, close(state, LOST, step=7))

    again = lifecycle.open_attempt(
        state, LATER, devices=("cpu:0",), launcher="local", token_sha256="x"
    )

    assert told(again) == ["AttemptOpened", "Restored", "QUEUED"]
    assert (again[1].step, again[1].snapshot_id) == (0, None)  # type: ignore[attr-defined]


def test_the_last_attempt_of_the_plan_fails_the_run() -> None:
    """S77: after every retry."""
    state = given(make.submitted(execution={"maxAttempts": 2}))

    state = trained(state)
    first = close(state, LOST, step=3)
    state = trained(after(state, first))
    second = close(state, LOST, step=3)

    assert told(first) == ["AttemptClosed", "WAITING"]
    assert told(second) == ["AttemptClosed", "RunFailed"]


def test_what_the_run_itself_asked_for_is_not_tried_again() -> None:
    """S68: input and resource ends fail the run at once."""
    assert told(close(trained(given(make.submitted())), REFUSED)) == ["AttemptClosed", "RunFailed"]


def test_a_run_ends_when_its_last_snapshot_is_decided() -> None:
    """I9: the attempt has closed, its devices are free, and the files are still being copied."""
    state = offered(trained(given(make.submitted())), 20)

    ended = close(state, DONE, step=20)
    state = after(state, ended)

    assert told(ended) == ["AttemptClosed"]
    assert state.phase is Phase.TRAINING
    assert not state.wants_devices
    assert told(commit(state, "s20")) == ["SnapshotCommitted", "RunCompleted"]


# -- pause and resume ------------------------------------------------------------------------------


def test_a_pause_that_saved_everything_releases_the_devices_and_can_be_resumed() -> None:
    """I4, I5: the same run goes on from the update that was saved."""
    state = trained(given(make.submitted()))

    asked = lifecycle.request_pause(state, LATER, checkpoint="save")
    state = saved(after(state, asked), 9)
    paused = close(state, PAUSED, step=9)
    state = after(state, paused)
    resumed = lifecycle.resume(state, LATER)

    assert told(asked) == ["PauseRequested", "PAUSING"]
    assert told(paused) == ["AttemptClosed", "PAUSED"]
    assert told(resumed) == ["RunResumed", "WAITING"]
    assert after(state, resumed).wants_devices


def test_a_pause_whose_save_did_not_come_is_no_pause() -> None:
    """I4: a failed save never counts as success; the run goes on with another attempt."""
    state = saved(trained(given(make.submitted())), 5)
    state = after(state, lifecycle.request_pause(state, LATER, checkpoint="save"))

    events = close(state, PAUSED, step=9)

    assert told(events) == ["AttemptClosed", "PauseFailed", "WAITING"]
    assert events[1].reason == "update 9 was not saved; the newest saved one is 5"  # type: ignore[attr-defined]


def test_a_save_that_fails_while_training_ends_the_pause_and_not_the_run() -> None:
    """I4."""
    state = trained(given(make.submitted()))
    state = after(state, lifecycle.request_pause(state, LATER, checkpoint="save"))

    events = lifecycle.fail_pause(state, LATER, reason="the disk is full")

    assert told(events) == ["PauseFailed", "TRAINING"]
    assert after(state, events).pause_requested is None


def test_a_pause_that_takes_the_latest_needs_one() -> None:
    """I4: refused when nothing restorable exists."""
    state = trained(given(make.submitted()))

    with pytest.raises(RefusedError, match="holds nothing that it can be resumed from"):
        lifecycle.request_pause(state, LATER, checkpoint="latest")
    events = lifecycle.request_pause(saved(state, 5), LATER, checkpoint="latest")
    assert told(events) == [
        "PauseRequested",
        "PAUSING",
    ]


def test_a_run_that_waits_is_paused_at_once() -> None:
    """I4: it holds nothing that would have to be released."""
    state = given(make.submitted())

    assert told(lifecycle.request_pause(state, LATER, checkpoint="save")) == [
        "PauseRequested",
        "PAUSED",
    ]


def test_a_run_can_be_cancelled_while_it_pauses_and_while_it_is_paused() -> None:
    """I3, I4: cancel works in every phase."""
    state = trained(given(make.submitted()))
    pausing = after(state, lifecycle.request_pause(state, LATER, checkpoint="save"))
    cancelling = after(pausing, lifecycle.request_cancel(pausing, LATER))
    paused = after(pausing, close(pausing, PAUSED, step=0))

    assert told(close(cancelling, PAUSED)) == ["AttemptClosed", "RunCancelled"]
    assert paused.phase is Phase.PAUSED
    assert told(lifecycle.request_cancel(paused, LATER)) == ["CancelRequested", "RunCancelled"]


def test_only_a_paused_run_is_resumed() -> None:
    """I5, U3: a run that ended stays as it is."""
    state = trained(given(make.submitted()))

    with pytest.raises(RefusedError, match="only a paused run can be resumed"):
        lifecycle.resume(state, LATER)
    with pytest.raises(EndedError, match="has ended"):
        lifecycle.resume(after(state, close(state, DONE)), LATER)


def test_a_resumed_run_has_all_its_attempts_again() -> None:
    """I5: somebody wants it to go on; a pause is no failure."""
    state = saved(trained(given(make.submitted(execution={"maxAttempts": 1}))), 5)
    state = after(state, lifecycle.request_pause(state, LATER, checkpoint="latest"))
    state = after(state, close(state, PAUSED, step=7))

    state = after(state, lifecycle.resume(state, LATER))

    assert (state.tries, state.phase) == (0, Phase.WAITING)
