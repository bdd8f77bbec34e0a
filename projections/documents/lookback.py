"""What a restore leaves of a run: one pass over events that came before it, at the restore only.

A row is current iff no later restore went below its step. So an earlier state of the run (one is
kept now and then, see ``milestones.py``) is right to this day in what it says of rows, if the run
had never been further than each restore since; only what came after it is read again.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ledger.events import (
    AttemptOpened,
    Event,
    Recorded,
    Restored,
    StepReported,
    TrainingBegan,
    ValidationReported,
)
from projections import wire
from projections.documents import cost, series, timing
from projections.documents.state import State, reporter


class Past(NamedTuple):
    """What is known of a run before an event."""

    state: State | None  # what it once was; None: it was not submitted yet
    events: Iterable[Recorded]  # everything that was recorded of it since, in order


def is_untouched(state: State, restores: Sequence[int]) -> bool:
    """Whether all of ``restores`` left every row alone that ``state`` knows of.

    Args:
        state: what the run once was.
        restores: the step of every restore so far, in order, those before ``state`` too.
    """
    since = restores[len(state["restores"]) :]
    return state["highestStep"] <= min(since)  # type: ignore[no-any-return]


def look_back(restores: Sequence[int], past: Past) -> "LookBack":
    """What the rows of a run are once all of ``restores`` have happened.

    Args:
        restores: the step of every restore so far, in order; the last one is not in ``past``.
        past: of the run before the last restore; its state is untouched by the restores since.
    """
    found = LookBack(restores, past.state)
    for _, event in past.events:
        found.see(event)
    return found


class LookBack:
    """Rows that are current, and what the others took."""

    def __init__(self, restores: Sequence[int], begin: State | None) -> None:
        self.series = series.empty()  # of the current rows
        self.spent: dict[int | None, cost.Spent] = {}  # by attempt
        self.superseded: dict[int | None, dict[str, int]] = {}  # by attempt: updates taken back
        self.before: dict[str, Any] | None = None  # newest loss of the first update taken back
        self._passed = 0
        self._counted: int | None = None  # newest update taken back since the restore passed last
        self._now = 0
        if begin is not None:
            self._begin(begin)
            restores = restores[len(begin["restores"]) :]
        self._bounds = list(accumulate(reversed(restores), min))[::-1]

    def _begin(self, state: State) -> None:
        """Go on from what the run once was."""
        self.series = state["series"]
        self._now = state["now"]
        for each in state["attempts"]:
            self.spent[each["attempt"]] = each["spent"]
            if each["superseded"] is not None:
                self.superseded[each["attempt"]] = each["superseded"]

    def see(self, event: Event) -> None:
        """Take the next event."""
        self._now = timing.reached(self._now, event)
        match event:
            case StepReported():
                self._step(event)
            case ValidationReported() if event.step <= self._bounds[self._passed]:
                series.add(self.series, event)
            case Restored():
                self._restore(event)
            case AttemptOpened():
                self.spent[event.attempt] = cost.nothing()
            case TrainingBegan():
                cost.begin(self.spent[reporter(event.originator_id)], self._now)

    def _step(self, event: StepReported) -> None:
        attempt = reporter(event.originator_id)
        if event.step <= self._bounds[self._passed]:
            series.add(self.series, event)
            cost.update(self.spent[attempt], self._now)
        else:
            cost.update(self.spent[attempt], self._now, "repeated")
            self._count(attempt, event.step)
        if event.step > self._bounds[-1]:
            self._remember(event)

    def _count(self, attempt: int | None, step: int) -> None:
        """Count an update that was taken back, however many reports it has."""
        if step == self._counted:
            return
        self._counted = step
        gone = self.superseded.setdefault(attempt, {"fromStep": step, "toStep": step, "steps": 0})
        gone["fromStep"] = min(gone["fromStep"], step)
        gone["toStep"] = max(gone["toStep"], step)
        gone["steps"] += 1

    def _remember(self, event: StepReported) -> None:
        loss = event.measured.get("loss")
        if loss is not None and (self.before is None or event.step <= self.before["step"]):
            self.before = {"step": event.step, "loss": wire.number(loss)}

    def _restore(self, event: Restored) -> None:
        self._passed += 1
        self._counted = None
        if event.attempt is None:
            cost.go_back(self.spent[reporter(event.originator_id)], self._now)
