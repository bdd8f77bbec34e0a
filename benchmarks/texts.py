"""Rollouts as every benchmark has them: 64 for an update, each with texts of 2,000 characters."""

from random import Random
from typing import Any

GENERATIONS = 64  # rollouts of an update
PROMPT_WORDS, COMPLETION_WORDS = 60, 220

_random = Random(0)
_WORDS = [
    "".join(_random.choices("abcdefghijklmnopqrstuvwxyz", k=_random.randint(3, 10)))
    for _ in range(5_000)
]


def scored() -> list[dict[str, Any]]:
    """The rollouts of one update; no two texts are the same."""
    return [_rollout() for _ in range(GENERATIONS)]


def _rollout() -> dict[str, Any]:
    terms = {name: _random.random() for name in ("correct", "format", "length")}
    return {
        "prompt": [{"role": "user", "content": _text(PROMPT_WORDS)}],
        "completion": _text(COMPLETION_WORDS),
        "score": sum(terms.values()),
        "terms": terms,
    }


def _text(words: int) -> str:
    return " ".join(_random.choices(_WORDS, k=words))
