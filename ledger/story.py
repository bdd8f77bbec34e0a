"""A story: the events that follow from a decision, told in order on top of a run's state."""

from typing import Any, TypeVar

from ledger.errors import RefusedError
from ledger.events import Event, PhaseChanged, run_stream
from ledger.run import Phase, RunState, Stamp, evolve

EventT = TypeVar("EventT", bound=Event)

_MAY_ENTER = {
    Phase.SUBMITTED: frozenset({Phase.PREPARING, Phase.WAITING, Phase.QUEUED, Phase.PAUSED}),
    Phase.WAITING: frozenset({Phase.QUEUED, Phase.PAUSED}),
    Phase.QUEUED: frozenset(
        {Phase.PREPARING, Phase.TRAINING, Phase.WAITING, Phase.PAUSING, Phase.CANCELLING}
    ),
    Phase.PREPARING: frozenset(
        {Phase.WAITING, Phase.TRAINING, Phase.PAUSING, Phase.PAUSED, Phase.CANCELLING}
    ),
    Phase.TRAINING: frozenset({Phase.WAITING, Phase.PAUSING, Phase.CANCELLING}),
    Phase.PAUSING: frozenset({Phase.PAUSED, Phase.TRAINING, Phase.WAITING, Phase.CANCELLING}),
    Phase.PAUSED: frozenset({Phase.WAITING, Phase.PREPARING}),
}


class Story:
    """The next events of a run, in order, each with the version that follows."""

    def __init__(self, state: RunState, stamp: Stamp) -> None:
        self.state = state
        self.stamp = stamp
        self.events: list[Event] = []

    def tell(self, kind: type[EventT], **facts: Any) -> None:
        """Add an event of ``kind``."""
        event = kind.model_validate(
            {
                "originator_id": run_stream(self.state.run_id),
                "originator_version": self.state.version + 1,
                "timestamp": self.stamp.now,
                "reported_at": self.stamp.reported_at,
                "principal": self.stamp.principal,
                **facts,
            }
        )
        self.events.append(event)
        self.state = evolve(self.state, event)

    def enter(self, phase: Phase, waiting_for: str | None = None) -> None:
        """Change the phase.

        Raises:
            RefusedError: ``phase`` does not follow the present one.
        """
        if phase not in _MAY_ENTER.get(self.state.phase, frozenset()):
            raise RefusedError(
                f"run {self.state.run_id} is {self.state.phase} and cannot become {phase}"
            )
        self.tell(PhaseChanged, phase=phase, waiting_for=waiting_for)
