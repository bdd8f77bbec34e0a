"""One step as every benchmark has it: twelve numbers, with as many digits as real ones."""

import math
from random import Random

_random = Random(0)
_uniform = _random.random


def measured(step: int) -> dict[str, float]:
    """What was measured at update ``step``."""
    loss = 0.4 + 2.1 * math.exp(-step / 30_000) + 0.05 * _uniform()
    norm = 0.3 + _uniform()
    return {
        "loss": loss,
        "grad_norm": norm,
        "grad_clip_factor": min(1.0, 1.0 / norm),
        "adapter_norm": 13.7 + step * 1e-4 + 1e-3 * _uniform(),
        "update_ratio": 1e-4 * (1.0 + _uniform()),
        "learning_rate": 2e-4 * (0.5 + 0.5 * math.cos(step * 3e-5)),
        "epoch": step / 33_333,
        "num_tokens": float(step * 8_192),
        "entropy": 0.9 * loss + 0.01 * _uniform(),
        "mean_token_accuracy": 1.0 / (1.0 + loss) + 0.01 * _uniform(),
        "tokens_per_second": 5_000.0 + 900.0 * _uniform(),
        "padding_share": 0.2 * _uniform(),
    }
