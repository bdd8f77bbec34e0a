"""Memory of the device that trains: its peak, and what held it in the step that reserved the most.

A step has two phases: forward and backward passes with all their micro-batches, and the optimizer's
step. Parts that have a name (weights, adapter, gradients, optimizer state) are counted from their
tensors, the others come from the gauge of the device. Nothing is copied and nothing waits.

A GPU is measured in every step. Counting what autograd keeps on a CPU takes longer, so that is done
in the first steps, and in the one after a step that reserved noticeably more than they did.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.worker.trl.breakdown import Parts, Sample, breakdown
from engine.worker.trl.gauges import CudaGauge, Gauge, ProcessGauge, storage_bytes

PASSES, OPTIMIZER = "forward and backward", "optimizer step"
GROWTH = 1.05  # more memory is worth another look, and another line, when it grew by this factor
FIRST = 3  # steps: the optimizer has its state from the second on


class Most(NamedTuple):
    """The step that reserved the most so far."""

    step: int
    breakdown: dict[str, Any]


class Meter:
    """Measures every step of a training; a callback says when its phases begin and end."""

    def __init__(self, model: Any, optimizer: Any, *, gauge: Gauge | None = None) -> None:
        """``model`` and ``optimizer`` are those that the training uses from now on."""
        self._gauge = gauge or _gauge(model)
        self._optimizer = optimizer
        parameters = list(model.parameters())
        self._trained = [each for each in parameters if each.requires_grad]
        self._adapter = storage_bytes(self._of_device(self._trained))
        frozen = (each for each in parameters if not each.requires_grad)
        self._weights = storage_bytes(self._of_device([*frozen, *model.buffers()]))
        self._known_states = -1
        self._optimizer_state = 0
        self._samples: list[Sample] = []
        self._at_forward: Parts | None = None
        self._begun = 0  # steps
        self._watches = True
        self._has_grown = False
        self._told = 0  # bytes that the newest line said were reserved
        self.most: Most | None = None

    def peak_bytes(self) -> dict[str, int]:
        """Peak bytes by device: reserved from a GPU's driver, or resident in this process."""
        return self._gauge.peak_bytes()

    def begin_step(self) -> None:
        """The first micro-batch goes in."""
        self._samples, self._at_forward = [], None
        self._begun += 1
        self._watches = self._gauge.is_cheap or self._begun <= FIRST or self._has_grown
        self._gauge.begin()

    @contextmanager
    def forward(self) -> Iterator[None]:
        """A forward pass; one without gradients is no part of a step."""
        if not (self._watches and torch.is_grad_enabled()):
            yield
            return
        with self._gauge.watch():
            yield
        self._at_forward = self._parts()
        self._samples += self._gauge.forward_made(PASSES, self._at_forward)

    def end_passes(self) -> None:
        """All gradients are made. On a GPU the peak was when the last backward pass began."""
        if self._watches:
            at_peak = self._at_forward if self._gauge.kind == "cuda" else None
            self._samples.append(self._gauge.end(PASSES, at_peak or self._parts()))
            self._gauge.begin()

    def end_step(self, step: int) -> None:
        """Weights are new, and gradients are still there."""
        known = self.most.breakdown["reservedBytes"] if self.most else 0
        if not self._watches:
            self._has_grown = self._gauge.reserved_bytes() > known * GROWTH
            return
        self._has_grown = False  # what was seen to grow is measured now
        self._samples.append(self._gauge.end(OPTIMIZER, self._parts()))
        if max(each.reserved for each in self._samples) > known:
            found = breakdown(self._gauge.device(), self._samples)
            self.most = self.most if found is None else Most(step, found)

    def news(self, *, growth: float = GROWTH) -> Most | None:
        """The step that reserved the most, where it reserved noticeably more than was said."""
        if self.most is None or self.most.breakdown["reservedBytes"] <= self._told * growth:
            return None
        self._told = self.most.breakdown["reservedBytes"]
        return self.most

    def _parts(self) -> Parts:
        gradients = [each.grad for each in self._trained if each.grad is not None]
        return Parts(
            weights=self._weights,
            adapter=self._adapter,
            gradients=sum(each.nbytes for each in self._of_device(gradients)),
            optimizer_state=self._state_bytes(),
        )

    def _state_bytes(self) -> int:
        """Bytes of the optimizer's state, counted anew when it has states of more weights."""
        states = self._optimizer.state
        if len(states) != self._known_states:
            self._known_states = len(states)
            each = (value for state in states.values() for value in state.values())
            tensors = [value for value in each if isinstance(value, Tensor)]
            self._optimizer_state = storage_bytes(self._of_device(tensors))
        return self._optimizer_state

    def _of_device(self, tensors: list[Tensor]) -> list[Tensor]:
        return [each for each in tensors if each.device.type == self._gauge.kind]


def _gauge(model: Any) -> Gauge:
    if torch.cuda.is_available():
        return CudaGauge()
    return ProcessGauge([*model.parameters(), *model.buffers()])
