"""Comparing: whether what is in place after a restore is what was saved."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch

from engine.client import Reporter

Verdict = Literal["exact", "within", "differs"]

WITHIN = 1e-6  # a difference of this much can be rounding


def report(reporter: Reporter, step: int, differences: Mapping[str, float]) -> None:
    """Say how the parts of update ``step`` differ, and by how much at most."""
    largest = max(differences.values())
    reporter.restore_check(
        step,
        verdict(largest),
        within=largest if 0 < largest < math.inf else None,
        parts={name: verdict(each) for name, each in differences.items()},
    )


def verdict(found: float) -> Verdict:
    """A difference in words."""
    if found == 0:
        return "exact"
    return "within" if found <= WITHIN else "differs"


def difference(saved: Any, present: Any) -> float:
    """0 for two values of the same bits, else their largest difference; infinity for two kinds."""
    if isinstance(saved, torch.Tensor) and isinstance(present, torch.Tensor):
        return _tensor_difference(saved.cpu(), present.detach().cpu())
    if isinstance(saved, dict) and isinstance(present, dict):
        if saved.keys() != present.keys():
            return math.inf
        return max((difference(saved[key], present[key]) for key in saved), default=0.0)
    if isinstance(saved, (list, tuple)) and isinstance(present, (list, tuple)):
        if len(saved) != len(present):
            return math.inf
        return max(map(difference, saved, present), default=0.0)
    return 0.0 if saved == present else math.inf


def _tensor_difference(saved: torch.Tensor, present: torch.Tensor) -> float:
    if saved.shape != present.shape or saved.dtype != present.dtype:
        return math.inf
    bits = [each.reshape(-1).contiguous().view(torch.uint8) for each in (saved, present)]
    if torch.equal(*bits):
        return 0.0
    largest = (saved.double() - present.double()).abs().max().item()
    return math.inf if math.isnan(largest) else largest
