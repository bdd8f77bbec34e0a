"""How fast a run trains: tokens a second, of the updates of its newest attempt alone.

Only there do they say how fast it is now: an earlier attempt may have had other devices. The first
update is the one that others are counted from, since nobody knows what it itself added. An update
takes as long as its trainer says, or else the time since the one before it. A trainer that goes
back begins to be counted anew, as what it did before counts no more.
"""

import math
from typing import Any

from ledger.events import StepReported

TOKENS = "num_tokens"  # of all updates so far and on all devices, as TRL names it

State = dict[str, Any]
Attempt = dict[str, Any]


def count(attempt: Attempt, event: StepReported, now: int) -> None:
    """Add what an update trained on, if it says so; ``now`` in milliseconds."""
    tokens = event.measured.get(TOKENS)
    if tokens is None or not math.isfinite(tokens):
        return
    pace = attempt["pace"]
    if pace is None:
        attempt["pace"] = {"first": tokens, "newest": tokens, "seconds": 0.0, "at": now}
        return
    seconds = event.step_seconds
    pace["seconds"] += (now - pace["at"]) / 1000 if seconds is None else seconds
    pace["newest"], pace["at"] = tokens, now


def of_run(state: State) -> dict[str, Any] | None:
    """Tokens a second of the newest attempt, in all and per device; None: not measured."""
    attempt = state["attempts"][-1] if state["attempts"] else None
    if attempt is None or attempt["pace"] is None or not attempt["devices"]:
        return None
    pace = attempt["pace"]
    tokens, seconds = pace["newest"] - pace["first"], pace["seconds"]
    if tokens <= 0 or not 0 < seconds < math.inf:
        return None
    rate = tokens / seconds
    return {
        "attempt": attempt["attempt"],
        "tokensPerSecond": rate,
        "tokensPerSecondPerDevice": rate / len(attempt["devices"]),
    }
