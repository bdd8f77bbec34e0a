"""What happens to a followed run beside its progress, a line for each event."""

from collections.abc import Callable

from cli.render.text import count, number, plain, short
from cli.wire import Event


def note(event: Event) -> str:
    """The line for an event that is worth one."""
    return _NOTES[event["kind"]](event)


def _restored(event: Event) -> str:
    attempt, step = f"attempt {count(event['attempt'])}", count(event["step"])
    if event.get("snapshotId"):
        return f"{attempt} goes on from step {step} (snapshot {short(event['snapshotId'])})"
    if event["step"]:  # no attempt of ours begins so: the trainer kept something itself
        return f"{attempt} went back to step {step}"
    return f"{attempt} begins from the start"


def _restore_checked(event: Event) -> str:
    parts = [f"{plain(name)} {each}" for name, each in event["parts"].items() if each != "exact"]
    which = f" ({', '.join(parts)})" if parts else ""
    if event["verdict"] == "differs":
        return f"  what was restored differs from what was saved{which}"
    within = event.get("within")
    limit = f" within {number(within)}" if within is not None else ", nearly"
    return f"  what was restored is what was saved{limit}{which}"


def _attempt_closed(event: Event) -> str:
    attempt, step = count(event["attempt"]), count(event.get("step") or 0)
    return f"attempt {attempt} ended at step {step}: {plain(event['reason'])}"


def _preparation_closed(event: Event) -> str:
    return f"preparation {count(event['preparation'])} ended: {plain(event['reason'])}"


def _pause_failed(event: Event) -> str:
    return f"the pause failed, the run goes on: {plain(event['reason'])}"


def _save_failed(event: Event) -> str:
    return f"  step {count(event['step'])} was not saved: {plain(event['reason'])}"


def _snapshot_damaged(event: Event) -> str:
    return f"snapshot {short(event['snapshotId'])} is damaged: {plain(event['reason'])}"


_NOTES: dict[str, Callable[[Event], str]] = {
    "restored": _restored,
    "restoreChecked": _restore_checked,
    "preparationClosed": _preparation_closed,
    "attemptClosed": _attempt_closed,
    "pauseFailed": _pause_failed,
    "saveFailed": _save_failed,
    "snapshotDamaged": _snapshot_damaged,
    "snapshotRejected": _save_failed,
}
