"""The callback: what the trainer does, as report lines, one for each optimizer step.

The trainer calls in this order: ``on_step_begin``, gradients are clipped,
``on_pre_optimizer_step``, the optimizer steps, ``on_optimizer_step``, ``on_step_end``, ``on_log``
with what it measured, and where it is due an evaluation with a second ``on_log``.
"""

import time
from collections.abc import Callable
from numbers import Real
from typing import Any

from transformers import TrainerCallback

from engine.client import Reporter
from engine.worker.trl import memory
from engine.worker.trl.norms import AdapterNorms, clip_factor

_GROWTH = 1.05  # a peak is worth another line when it grew by this factor


class ReportSteps(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Reports what was measured, and turns a request to stop into the trainer's own."""

    def __init__(
        self,
        reporter: Reporter,
        *,
        stopping: Callable[[], bool],
        validates: bool,
        announce: Callable[[Any, Any, int], None],
    ) -> None:
        """``announce`` is called with model, optimizer and number of updates before the first."""
        self.stopped = False
        self._reporter = reporter
        self._stopping = stopping
        self._validates = validates
        self._announce = announce
        self._norms: AdapterNorms
        self._normed: dict[str, float] = {}
        self._said: set[str] = set()  # names that the newest step has a number for
        self._began = 0.0
        self._seconds = 0.0
        self._peak_bytes: dict[str, int] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Everything is built: say what it is and how many updates it will make."""
        model = kwargs["model"]
        self._norms = AdapterNorms(each for each in model.parameters() if each.requires_grad)
        self._announce(model, kwargs["optimizer"], state.max_steps)
        self._reporter.training(total_steps=state.max_steps)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The first micro-batch of a step goes in."""
        self._began = time.monotonic()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Gradients are clipped, weights are old."""
        self._norms.before_step()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Weights are new."""
        self._normed = self._norms.after_step()
        self._seconds = time.monotonic() - self._began

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Decide what follows this step: an evaluation, the end, or the next one."""
        last = state.global_step >= state.max_steps
        control.should_evaluate |= last and self._validates
        if not last and self._stopping():
            self.stopped = control.should_training_stop = True
            control.should_evaluate = False
        self._report_memory(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Report every number: of a step, of an evaluation, or of the whole training."""
        measured = {name: value for name, value in logs.items() if _is_number(value)}
        if "loss" in measured:
            self._report_step(state.global_step, measured, args.max_grad_norm)
        elif any(name.startswith("eval_") for name in measured):
            self._reporter.validation(state.global_step, measured)
        elif state.global_step > 0:
            self._report_summary(state.global_step, measured)

    def _report_step(self, step: int, measured: dict[str, Any], max_grad_norm: float) -> None:
        """One update, with our own three fields beside the engine's."""
        if "grad_norm" in measured:
            factor = clip_factor(measured["grad_norm"], max_grad_norm)
            if factor is not None:
                measured["grad_clip_factor"] = factor
        measured |= self._normed
        self._said = set(measured)
        self._reporter.step(step, measured, step_seconds=self._seconds)

    def _report_summary(self, step: int, measured: dict[str, Any]) -> None:
        """The trainer's closing numbers, as further fields of the last step."""
        further = {name: value for name, value in measured.items() if name not in self._said}
        self._reporter.step(step, further)

    def _report_memory(self, step: int) -> None:
        """Say the peak after the first step, and again when it has grown noticeably."""
        now = memory.peak_bytes()
        if any(peak > self._peak_bytes.get(name, 0) * _GROWTH for name, peak in now.items()):
            self._peak_bytes = now
            self._reporter.memory(now, step=step)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
