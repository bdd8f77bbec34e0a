"""The three fields that the worker adds to what the engine measures."""

import math

import pytest
import torch

from engine.worker.trl.norms import AdapterNorms, clip_factor


def test_the_update_ratio_is_the_change_over_the_norm_before_the_step() -> None:
    """S90, S91: weights (3, 4) become (3, 4.5): norm 5 before, 5.408 after, change 0.5."""
    a, b = torch.tensor([3.0]), torch.tensor([[4.0]])
    norms = AdapterNorms([a, b])

    norms.before_step()
    b.add_(0.5)
    measured = norms.after_step()

    assert measured == {
        "adapter_norm": pytest.approx(math.hypot(3, 4.5)),
        "update_ratio": pytest.approx(0.5 / 5),
    }


def test_each_step_is_measured_against_the_weights_right_before_it() -> None:
    """S91: the second ratio has the norm after the first step below it."""
    weights = torch.tensor([3.0, 4.0])
    norms = AdapterNorms([weights])
    norms.before_step()
    weights.mul_(2)
    norms.after_step()

    norms.before_step()
    weights.mul_(1.5)
    measured = norms.after_step()

    assert measured == {"adapter_norm": pytest.approx(15.0), "update_ratio": pytest.approx(0.5)}


def test_a_step_that_changed_nothing_has_the_ratio_0() -> None:
    """C28: a skipped update is visible."""
    norms = AdapterNorms([torch.tensor([3.0, 4.0])])

    norms.before_step()

    assert norms.after_step() == {"adapter_norm": 5.0, "update_ratio": 0.0}


def test_an_adapter_of_zeros_has_no_ratio() -> None:
    """D10: absent, not infinity."""
    weights = torch.zeros(2)
    norms = AdapterNorms([weights])

    norms.before_step()
    weights.add_(1)

    assert norms.after_step() == {"adapter_norm": pytest.approx(math.sqrt(2))}


@pytest.mark.parametrize(
    ("grad_norm", "factor"),
    [
        (11.009225845336914, 0.09083290814890146),
        (0.5, 1.0),
        (1.0, 1.0),
        (0.0, 1.0),
        (math.inf, None),
        (math.nan, None),
    ],
)
def test_the_clip_factor_is_the_maximum_over_the_norm_or_1(
    grad_norm: float, factor: float | None
) -> None:
    """S89, C28: for a norm that is not finite there is no made-up number."""
    assert clip_factor(grad_norm, 1.0) == factor
