"""Branching: a run that begins from a snapshot of another one.

A branch of weights takes the adapter and nothing else. A branch of training state is restored whole
(``restoring.py``), and then gets a learning-rate schedule of its own, over its own updates.
"""

from collections.abc import Callable
from typing import Any

from peft import set_peft_model_state_dict
from transformers import TrainerCallback

from engine.client import Reporter
from engine.worker.trl import comparing, snapshots
from engine.worker.trl.comparing import difference
from engine.worker.trl.restoring import Weights


class TakeWeights(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Puts weights into the adapter that was made for them, and says whether they are in place."""

    def __init__(self, reporter: Reporter, weights: Weights, model: Any) -> None:
        self._reporter = reporter
        self._weights = weights
        set_peft_model_state_dict(model, weights.adapter)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Everything is built: it is this model that will be trained."""
        saved, present = self._weights.adapter, snapshots.adapter_tensors(kwargs["model"])
        differences = {"adapter": difference(saved, present)}
        comparing.report(self._reporter, self._weights.begins.step, differences)
        saved.clear()


class BeginSchedule(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Puts a schedule at its start in the place of the one that was restored."""

    def __init__(self, schedule_at_start: Callable[[], dict[str, Any]]) -> None:
        """``schedule_at_start`` is the state of the trainer's schedule before any update."""
        self._schedule_at_start = schedule_at_start

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The trainer has restored all of its own, and that was compared with what was saved."""
        schedule = kwargs["lr_scheduler"]
        schedule.load_state_dict(self._schedule_at_start())
        # The first update takes its rate from the optimizer; the schedule sets that only after it.
        groups = kwargs["optimizer"].param_groups
        rates = zip(groups, schedule.get_last_lr(), schedule.base_lrs, strict=True)
        for group, rate, highest in rates:
            group["lr"], group["initial_lr"] = rate, highest
        state.total_flos = 0.0  # of this run
