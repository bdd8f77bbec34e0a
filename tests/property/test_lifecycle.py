"""Whatever people ask for at whatever moment, nothing that the system then decides is refused."""

from collections.abc import Callable
from functools import partial

from hypothesis import given as tried, settings, strategies as some

from ledger import lifecycle, snapshots
from ledger.errors import RefusedError
from ledger.events import Event
from ledger.run import Ending, Phase, RunState
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
    prepared,
    preparing,
    saved,
    started,
    trained,
)

ENDINGS = (DONE, LOST, PAUSED, REFUSED)
ASKED: dict[str, Callable[[RunState], list[Event]]] = {
    "pause": lambda state: lifecycle.request_pause(state, LATER, checkpoint="save"),
    "pause as saved": lambda state: lifecycle.request_pause(state, LATER, checkpoint="latest"),
    "resume": lambda state: lifecycle.resume(state, LATER),
    "cancel": lambda state: lifecycle.request_cancel(state, LATER),
}
Happening = Callable[[RunState], RunState]


def may_happen(state: RunState) -> list[Happening]:
    """What the system may come to do in this state."""
    if state.has_ended:
        return []
    found: list[Happening] = []
    attempt = state.open_attempt
    if state.offers:
        found += [commits, rejects]
    if state.open_job is None:
        return [*found, *may_begin(state)]
    found += [partial(closes, ending=each) for each in ENDINGS]
    if attempt is None:
        return found
    found.append(lambda now: offered(now, attempt.step + len(now.offers) + len(now.snapshots) + 1))
    found.append(lambda now: after(now, lifecycle.fail_pause(now, LATER, reason="no room")))
    if state.phase is Phase.QUEUED:
        found.append(started)
    if state.phase is Phase.PREPARING:
        found.append(lambda now: after(now, lifecycle.begin_training(now, LATER)))
    return found


def may_begin(state: RunState) -> list[Happening]:
    """The job that is next, and the wait for it."""
    if not (state.wants_devices or state.wants_preparation):
        return []
    return [preparing if state.wants_preparation else opened, waits]


def waits(state: RunState) -> RunState:
    return after(state, lifecycle.wait(state, LATER, because="others are before it"))


def commits(state: RunState) -> RunState:
    return after(state, commit(state, f"s{state.version}"))


def rejects(state: RunState) -> RunState:
    offer = state.offers[0]
    return after(state, snapshots.reject_snapshot(state, LATER, offer=offer, reason="gone"))


def closes(state: RunState, *, ending: Ending) -> RunState:
    newest = max((each.step for each in state.snapshots + state.offers), default=0)
    return after(state, close(state, ending, newest))


FRESH = given(make.submitted())
AHEAD = given(make.submitted(engine="trl", execution={"devices": 2}))
BEGINNINGS = (
    FRESH,
    AHEAD,
    preparing(AHEAD),
    prepared(AHEAD, LOST),
    trained(prepared(AHEAD)),
    trained(FRESH),
    offered(trained(FRESH), 1),
    offered(saved(trained(FRESH), 1), 2),
)


@settings(max_examples=400)
@tried(
    state=some.sampled_from(BEGINNINGS),
    acts=some.lists(
        some.one_of(some.sampled_from(sorted(ASKED)), some.integers(0, 9)), max_size=20
    ),
)
def test_the_system_is_never_refused_and_every_run_can_still_end(
    state: RunState, acts: list[str | int]
) -> None:
    """U3, I3, I4: also where a pause is asked for between an attempt's end and what follows."""
    for act in acts:
        if isinstance(act, str):
            state = asked(state, act)
        elif possible := may_happen(state):
            state = possible[act % len(possible)](state)

    assert ended(state).has_ended


@settings(max_examples=200)
@tried(acts=some.lists(some.one_of(some.sampled_from(sorted(ASKED)), some.integers(0, 9))))
def test_no_devices_are_claimed_before_the_rows_are_prepared(acts: list[str | int]) -> None:
    """S29, S31: whatever people ask; and from the first preparation on, PREPARING is the phase."""
    state = AHEAD
    for act in acts:
        if isinstance(act, str):
            state = asked(state, act)
        elif possible := may_happen(state):
            state = possible[act % len(possible)](state)

        assert state.attempt is None or state.is_prepared
        assert not (state.wants_devices and state.wants_preparation)
        if not state.is_prepared:
            assert state.phase not in (Phase.WAITING, Phase.QUEUED, Phase.TRAINING)


def asked(state: RunState, act: str) -> RunState:
    """The state after somebody asked for something, which the rules may refuse."""
    try:
        return after(state, ASKED[act](state))
    except RefusedError:
        return state


def ended(state: RunState) -> RunState:
    """The state once nothing disturbs the run any more."""
    for _ in range(60):
        if state.phase is Phase.PAUSED:
            state = asked(state, "resume")
        elif state.offers:
            state = commits(state)
        elif state.open_job is not None:
            state = closes(state, ending=DONE)
        elif state.wants_preparation:
            state = preparing(state)
        elif state.wants_devices:
            state = opened(state)
    return state
