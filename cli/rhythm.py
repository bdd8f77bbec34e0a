"""Which lines a followed run is worth in a pipe: each change, and numbers every two seconds."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cli.progress import Progress
from cli.render.progress import changes, stage_line, step_line

SECONDS = 2.0  # between two lines of the same kind


@dataclass
class Rhythm:
    """Which plain lines are worth writing: each change, and numbers every two seconds.

    ``told`` is what the newest lines said, ``since`` when they said it.
    """

    told: Progress
    since: dict[str, float] = field(default_factory=dict)

    def lines(self, before: Progress, after: Progress, *, now: float) -> Iterator[str]:
        """The lines to write for the change from ``before`` to ``after``."""
        if _says_more(before, after) and before.recent and before.step != self.told.step:
            yield self._tell("step", before, step_line(before), now)
        yield from changes(before, after)
        if after.recent not in ((), before.recent) and self._is_due("step", now, last=_made(after)):
            yield self._tell("step", after, step_line(after), now)
        elif _has_new_rows(before, after) and self._is_due("stage", now, last=_read(after)):
            yield self._tell("stage", after, stage_line(after), now)

    def _is_due(self, what: str, now: float, *, last: bool) -> bool:
        return last or now - self.since.get(what, -SECONDS) >= SECONDS

    def _tell(self, what: str, progress: Progress, line: str, now: float) -> str:
        self.told, self.since[what] = progress, now
        return line


def _says_more(before: Progress, after: Progress) -> bool:
    """Whether something else than numbers is told, before which the newest step belongs."""
    return (after.phase, after.note) != (before.phase, before.note)


def _made(progress: Progress) -> bool:
    """Whether the last planned step is made."""
    return progress.step == progress.total_steps


def _read(progress: Progress) -> bool:
    """Whether the last row of the stage is done."""
    return progress.completed == progress.total


def _has_new_rows(before: Progress, after: Progress) -> bool:
    return after.stage == before.stage and after.completed != before.completed
