"""Start checks of a run: what was checked before the first update, and what came of it.

A check that a later attempt makes again replaces what an earlier one found.
"""

from typing import Any

from ledger.events import StartChecked
from projections import wire

Checks = dict[str, dict[str, Any]]  # by name, in the order in which they were made first


def note(checks: Checks, event: StartChecked, attempt: int) -> None:
    """Keep what ``event`` says."""
    checks[event.name] = {
        "name": event.name,
        "value": wire.number(event.value),
        "warnLimit": wire.number(event.warn_limit),
        "refuseLimit": wire.number(event.refuse_limit),
        "unit": event.unit,
        "seconds": wire.number(event.seconds),
        "verdict": event.verdict,
        "attempt": attempt,
    }


def record(checks: Checks) -> dict[str, Any] | None:
    """All of them with how many passed and how long they took; None where none was made."""
    if not checks:
        return None
    made = list(checks.values())
    return {
        "passed": sum(each["verdict"] == "passed" for each in made),
        "total": len(made),
        "seconds": wire.number(sum(wire.read(each["seconds"]) for each in made)),
        "checks": made,
    }
