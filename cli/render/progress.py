"""A followed run in words: a status to redraw on a terminal, or a few plain lines for a pipe."""

from collections.abc import Iterator

from cli.progress import Progress
from cli.render.notes import note
from cli.render.text import count, duration, number, percent, plain

_BAR_COLUMNS = 24


def status(progress: Progress, width: int) -> str:
    """What moves inside the present phase, in lines of at most ``width`` columns."""
    lines = []
    if progress.phase in ("TRAINING", "PAUSING"):
        lines = [f"{_bar(progress)}{_steps(progress)}", ", ".join(_details(progress))]
    elif progress.stage:
        lines = [_stage(progress)]
    return "\n".join(f"  {line}"[:width] for line in lines if line)


def milestones(before: Progress, after: Progress) -> Iterator[str]:
    """Lines for what is worth keeping on any display: phases, restores, ends, validations."""
    if after.note and after.note != before.note:
        yield note(after.note)
    if (after.phase, after.waiting_for) != (before.phase, before.waiting_for):
        yield _phase(after)
    if after.validation and after.validation != before.validation:
        step, loss = after.validation
        yield f"  validation after step {count(step)}: loss {number(loss)}"


def changes(before: Progress, after: Progress) -> Iterator[str]:
    """The milestones, and each stage as it begins."""
    yield from milestones(before, after)
    if after.stage and after.stage != before.stage:
        yield stage_line(after)


def step_line(progress: Progress) -> str:
    """The newest step in a plain line."""
    return "  " + ", ".join([_steps(progress), *_details(progress)])


def stage_line(progress: Progress) -> str:
    """The stage with its rows in a plain line."""
    return f"  {_stage(progress)}"


def _phase(progress: Progress) -> str:
    if progress.phase == "PAUSED":
        return f"PAUSED: `trainledger runs resume {plain(progress.run_id)}` goes on"
    notes = [progress.waiting_for, progress.reason]
    said = ": ".join(plain(note) for note in notes if note)
    return f"{progress.phase}: {said}" if said else progress.phase


def _stage(progress: Progress) -> str:
    name = plain(progress.stage)
    if progress.completed is None:
        return name
    if progress.total is None:
        return f"{name}: {count(progress.completed)}"
    return f"{name}: {count(progress.completed)} of {count(progress.total)}"


def _bar(progress: Progress) -> str:
    if not progress.total_steps:
        return ""
    filled = min(_BAR_COLUMNS, progress.step * _BAR_COLUMNS // progress.total_steps)
    return f"[{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}] "


def _steps(progress: Progress) -> str:
    if not progress.total_steps:
        return f"step {count(progress.step)}"
    share = percent(progress.step / progress.total_steps)
    return f"step {count(progress.step)} of {count(progress.total_steps)} ({share})"


def _details(progress: Progress) -> Iterator[str]:
    if progress.loss is not None:
        yield f"loss {number(progress.loss)}"
    rate, left = progress.steps_per_second, progress.seconds_left
    if rate:
        yield _rate(rate)
    if left:
        yield f"{duration(left)} left"


def _rate(steps_per_second: float) -> str:
    if steps_per_second >= 100:
        return f"{steps_per_second:,.0f} steps/s"
    if steps_per_second >= 0.1:
        return f"{steps_per_second:.2f} steps/s"
    return f"{duration(1 / steps_per_second)} a step"
