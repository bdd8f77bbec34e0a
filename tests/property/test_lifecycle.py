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
    if attempt is None:
        return [*found, opened] if state.wants_devices else found
    found += [partial(closes, ending=each) for each in ENDINGS]
    found.append(lambda now: offered(now, attempt.step + len(now.offers) + len(now.snapshots) + 1))
    found.append(lambda now: after(now, lifecycle.fail_pause(now, LATER, reason="no room")))
    if state.phase is Phase.QUEUED:
        found.append(started)
    if state.phase is Phase.PREPARING:
        found.append(lambda now: after(now, lifecycle.begin_training(now, LATER)))
    return found


def commits(state: RunState) -> RunState:
    return after(state, commit(state, f"s{state.version}"))


def rejects(state: RunState) -> RunState:
    offer = state.offers[0]
    return after(state, snapshots.reject_snapshot(state, LATER, offer=offer, reason="gone"))


def closes(state: RunState, *, ending: Ending) -> RunState:
    assert state.attempt is not None
    newest = max((each.step for each in state.snapshots + state.offers), default=0)
    return after(state, close(state, ending, newest))


FRESH = given(make.submitted())
BEGINNINGS = (
    FRESH,
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
        elif state.open_attempt is not None:
            state = closes(state, ending=DONE)
        elif state.wants_devices:
            state = opened(state)
    return state
