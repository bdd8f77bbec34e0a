"""Norms of the adapter around each optimizer step.

``adapter_norm`` is the norm of all trained weights after the step, taken as one long vector;
``update_ratio`` is the norm of what the step changed over the norm before it. Where that norm was
0 there is no ratio. With a zero-initialised B the norm still holds the random A, so the ratio of
the first step is a number; a learning rate that warms up from 0 makes it 0.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor


class AdapterNorms:
    """Remembers the weights over one step, in buffers that are made once."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self._weights = [each.detach() for each in weights]  # the trainer's own memory
        self._before = [torch.empty_like(each) for each in self._weights]
        self._norm = _norm(self._weights).item()

    def before_step(self) -> None:
        """The gradients are clipped and the weights are still the old ones."""
        torch._foreach_copy_(self._before, self._weights)

    def after_step(self) -> dict[str, float]:
        """The measured fields of the step that the optimizer just made."""
        torch._foreach_sub_(self._before, self._weights)
        # one transfer for both numbers, since each one waits for the device
        after, update = torch.stack([_norm(self._weights), _norm(self._before)]).tolist()
        before, self._norm = self._norm, after
        return {"adapter_norm": after} | ({"update_ratio": update / before} if before else {})


def clip_factor(grad_norm: float, max_grad_norm: float) -> float | None:
    """What the gradients were multiplied with; None where their norm was not finite."""
    if not math.isfinite(grad_norm):
        return None
    return max_grad_norm / grad_norm if grad_norm > max_grad_norm else 1.0


def _norm(tensors: list[Tensor]) -> Tensor:
    whole: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return whole
