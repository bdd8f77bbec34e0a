"""Given events, when a decision is made, then these events follow."""

from datetime import timedelta
from functools import reduce
from typing import Any

import pytest

from ledger import run
from ledger.errors import EndedError, RefusedError
from ledger.events import Event
from ledger.run import Ending, Phase, RunState, Stamp
from tests import make

LATER = Stamp(make.moment(100), "tester")
DONE = Ending("completed", "completed", "completed", "everything that the plan asked for is done")


def given(*events: Event) -> RunState:
    """The state of a run whose life so far is ``events``."""
    recorded = make.recorded(*events)
    state = reduce(run.evolve, (each.event for each in recorded), None)
    assert state is not None
    return state


def told(events: list[Event]) -> list[Any]:
    """The kinds of the events, with the phase where there is one."""
    return [getattr(event, "phase", type(event).__name__) for event in events]


def opened(state: RunState) -> RunState:
    return reduce(
        run.evolve,
        run.open_attempt(state, LATER, devices=("cpu:0",), launcher="local", token_sha256="0" * 64),
        state,
    )


def started(state: RunState) -> RunState:
    return reduce(run.evolve, run.start_job(state, LATER, host="here", pid=7), state)


def test_an_attempt_claims_its_devices_and_is_queued_in_one_breath() -> None:
    """S41: QUEUED after the job was handed over."""
    state = given(make.submitted())

    events = run.open_attempt(state, LATER, devices=("cpu:0",), launcher="local", token_sha256="x")

    assert told(events) == ["AttemptOpened", "QUEUED"]
    assert [event.originator_version for event in events] == [2, 3]


def test_a_second_attempt_is_refused_while_one_is_open() -> None:
    state = opened(given(make.submitted()))

    with pytest.raises(RefusedError, match="is open"):
        opened(state)


def test_a_run_prepares_once_its_job_has_begun() -> None:
    """S42: after QUEUED, PREPARING."""
    state = opened(given(make.submitted()))

    assert told(run.start_job(state, LATER, host="here", pid=7)) == ["JobStarted", "PREPARING"]
    assert run.start_job(started(state), LATER, host="here", pid=7) == []


def test_training_begins_once() -> None:
    state = started(opened(given(make.submitted())))

    events = run.begin_training(state, LATER)

    assert told(events) == ["TRAINING"]
    assert run.begin_training(reduce(run.evolve, events, state), LATER) == []


def test_a_run_that_waits_says_for_what_and_says_it_once() -> None:
    state = given(make.submitted())

    events = run.wait_for_devices(state, LATER, because="1 device; cpu:0 is held by run aa")

    assert told(events) == ["WAITING"]
    assert events[0].waiting_for == "1 device; cpu:0 is held by run aa"  # type: ignore[attr-defined]
    again = reduce(run.evolve, events, state)
    assert run.wait_for_devices(again, LATER, because="something else") == []


def test_a_run_that_holds_nothing_is_cancelled_at_once() -> None:
    """I3: ends in CANCELLED."""
    events = run.request_cancel(given(make.submitted()), LATER)

    assert told(events) == ["CancelRequested", "RunCancelled"]


def test_a_run_that_trains_is_cancelled_when_its_job_has_stopped() -> None:
    """I3: returns when accepted; devices are freed with the attempt."""
    state = started(opened(given(make.submitted())))

    asked = run.request_cancel(state, LATER)
    state = reduce(run.evolve, asked, state)
    ended = run.close_attempt(
        state,
        LATER,
        ending=Ending("cancelled", "stopped", "cancelled", "the run was cancelled"),
        lines=3,
        last_sign_at=LATER.now,
    )

    assert told(asked) == ["CancelRequested", "CANCELLING"]
    assert run.request_cancel(state, LATER) == []
    assert told(ended) == ["AttemptClosed", "RunCancelled"]


def test_what_has_ended_never_changes() -> None:
    """U3: terminal phases never flip."""
    state = started(opened(given(make.submitted())))
    state = reduce(
        run.evolve,
        run.close_attempt(state, LATER, ending=DONE, lines=0, last_sign_at=LATER.now),
        state,
    )

    assert state.phase is Phase.COMPLETED
    assert run.close_attempt(state, LATER, ending=DONE, lines=0, last_sign_at=LATER.now) == []
    assert run.begin_training(state, LATER) == []
    with pytest.raises(EndedError, match="has ended: it is COMPLETED"):
        run.request_cancel(state, LATER)
    with pytest.raises(RefusedError, match="is COMPLETED and cannot become QUEUED"):
        opened(state)


def test_an_event_happened_when_the_worker_says_but_never_after_it_was_stored() -> None:
    """C42: phase times are the events' own."""
    state = opened(given(make.submitted()))
    early, late = make.moment(50), LATER.now + timedelta(hours=1)

    said = run.start_job(state, LATER._replace(reported_at=early), host="here", pid=7)
    ahead = run.start_job(state, LATER._replace(reported_at=late), host="here", pid=7)

    assert {event.at for event in said} == {early}
    assert {event.at for event in ahead} == {LATER.now}
