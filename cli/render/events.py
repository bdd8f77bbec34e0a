"""Events as lines: where in the ledger, when, what."""

from cli.render.text import fact, plain
from cli.wire import Event

_SHOWN_APART = {"position", "runId", "kind", "at", "terminal"}


def event_line(event: Event) -> str:
    """One event on one line with its facts as they are."""
    facts = " ".join(
        f"{plain(name)}={fact(each)}" for name, each in event.items() if name not in _SHOWN_APART
    )
    return f"{event['position']:>8}  {plain(event['at'])}  {plain(event['kind'])}  {facts}".rstrip()
