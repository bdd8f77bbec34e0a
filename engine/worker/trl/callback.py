"""The reporting callback: what the trainer does, as lines, one for each optimizer step.

The trainer calls in this order: ``on_step_begin``, gradients are clipped,
``on_pre_optimizer_step``, the optimizer steps, ``on_optimizer_step``, ``on_step_end``, ``on_log``
with what it measured, and where it is due an evaluation with a second ``on_log``.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from numbers import Real
from typing import Any

from transformers import TrainerCallback

from engine.client import Reporter
from engine.worker.trl.facts import FRESH, Progress
from engine.worker.trl.loading import IDLE_TOKENS
from engine.worker.trl.memory import GROWTH, Meter
from engine.worker.trl.norms import AdapterNorms, clip_factor
from engine.worker.trl.order import Order
from engine.worker.trl.ranks import Ranks

_TOKENS = {"num_tokens", "eval_num_tokens"}


class ReportSteps(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Reports what was measured."""

    def __init__(
        self,
        reporter: Reporter,
        *,
        validates: bool,
        announce: Callable[[Any, Any, int], None],
        begins: Progress = FRESH,
        order: Order,
        ranks: Ranks,
    ) -> None:
        """``announce`` is called with model, optimizer and number of updates before the first.

        ``begins`` is how far the run is already.
        """
        self._order = order
        self._ranks = ranks
        self._devices: list[str] = []  # of all ranks, where this is the one that reports
        self.loss_sum = begins.loss_sum  # of all updates of the run
        self._tokens = begins.tokens  # which the engine no longer counts
        self._base_step = begins.base_step  # which the engine counts, and the run does not
        self._begins_at = begins.engine_step
        self._reporter = reporter
        self._validates = validates
        self._announce = announce
        self.meter: Meter
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
        total = state.max_steps - self._base_step
        self.meter = Meter(model, kwargs["optimizer"])
        self._devices = self._ranks.gather(next(iter(self.meter.peak_bytes())))
        self._announce(model, kwargs["optimizer"], total)
        self._reporter.training(total_steps=total)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The first micro-batch of a step goes in."""
        self._began = time.monotonic()
        self.meter.begin_step()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Gradients are clipped, weights are old."""
        self.meter.end_passes()
        self._norms.before_step()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Weights are new."""
        self._normed = self._norms.after_step()
        self._seconds = time.monotonic() - self._began
        self.meter.end_step(self._step(state) + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Validate as the steps of this run say, and after the last one in any case."""
        step, is_last = self._step(state), state.global_step >= state.max_steps
        control.should_evaluate = self._validates and (is_last or step % args.eval_steps == 0)
        self._report_memory(step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Report every number: of a step, of an evaluation, or of the whole training."""
        measured = {name: value for name, value in logs.items() if _is_number(value)}
        for name in measured.keys() & _TOKENS:
            measured[name] += self._tokens - self._idle_tokens(state.global_step)
        if "loss" in measured:
            if self._base_step:
                measured["engine_step"] = state.global_step
            self._report_step(self._step(state), measured, args.max_grad_norm)
        elif any(name.startswith("eval_") for name in measured):
            self._reporter.validation(self._step(state), measured)
        elif state.global_step >= state.max_steps:
            self._report_summary(self._step(state), measured)

    def _idle_tokens(self, engine_step: int) -> int:
        """Tokens that the engine has counted, and which are of no row."""
        idle = self._order.idle(engine_step) - self._order.idle(self._begins_at)
        return idle * IDLE_TOKENS

    def _step(self, state: Any) -> int:
        """The step of this run."""
        step: int = state.global_step - self._base_step
        return step

    def _report_step(self, step: int, measured: dict[str, Any], max_grad_norm: float) -> None:
        """One update, with our own three fields beside the engine's."""
        self.loss_sum += measured["loss"]
        if "grad_norm" in measured:
            factor = clip_factor(measured["grad_norm"], max_grad_norm)
            if factor is not None:
                measured["grad_clip_factor"] = factor
        measured |= self._normed
        self._said = set(measured)
        self._reporter.step(step, measured, step_seconds=self._seconds)

    def _report_summary(self, step: int, measured: dict[str, Any]) -> None:
        """The trainer's closing numbers, as further fields of the last step.

        Its mean loss is that of one attempt; ours is the same mean over the whole run.
        """
        measured["train_loss"] = self.loss_sum / step
        further = {name: value for name, value in measured.items() if name not in self._said}
        self._reporter.step(step, further)

    def forward(self) -> AbstractContextManager[None]:
        """What a forward pass is made in, so that its memory is measured."""
        return self.meter.forward()

    def report_last_memory(self, step: int) -> None:
        """Say the peak of the whole attempt, and what held it where that was not said yet."""
        self._report_memory(step, growth=1.0)

    def _report_memory(self, step: int, *, growth: float = GROWTH) -> None:
        """Say the peak after the first step, and again when it has grown noticeably.

        What held a device is said of one alone: peaks of several are not one device's parts.
        """
        peaks = self._ranks.numbers(next(iter(self.meter.peak_bytes().values())))
        now = dict(zip(self._devices, peaks, strict=False))  # nothing, where others report
        most = None if self._ranks.are_several else self.meter.news(growth=growth)
        if most is not None:
            self._reporter.memory(now, step=most.step, breakdown=most.breakdown)
        elif any(peak > self._peak_bytes.get(name, 0) * growth for name, peak in now.items()):
            self._reporter.memory(now, step=step)
        else:
            return
        self._peak_bytes = now


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
