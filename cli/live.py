"""The display of a followed run that redraws itself. Imports rich: load it late."""

import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.progress import Progress, advance
from cli.render.progress import milestones, status
from cli.wire import Event

REDRAW_SECONDS = 0.1


def tell_live(events: Iterator[Event], progress: Progress) -> str:
    """Redraw what moves and leave the milestones above it; the phase that the run ended in."""
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        _redraw(live, Progress(phase=""), progress)
        shown = time.monotonic()
        for event in events:
            before, progress = progress, advance(progress, event)
            now = time.monotonic()
            if now - shown >= REDRAW_SECONDS or list(milestones(before, progress)):
                _redraw(live, before, progress)
                shown = now
    return progress.phase


def _redraw(live: Live, before: Progress, after: Progress) -> None:
    for line in milestones(before, after):
        live.console.print(Text(line))
    live.update(Text(status(after, live.console.width)), refresh=True)
