"""A followed run in words: one status line to redraw, or few plain lines for a pipe."""

from collections.abc import Iterator

from cli.progress import Progress
from cli.render.text import count, counted, duration, number, percent, plain

RHYTHM_SECONDS = 2.0  # between two plain lines of the same kind
_BAR_COLUMNS = 24


def status(progress: Progress, width: int) -> str:
    """The run as of now, in lines of at most ``width`` columns."""
    lines = [_phase(progress)]
    if progress.stage and progress.phase != "TRAINING":
        lines.append(_stage(progress))
    if progress.phase == "TRAINING":
        lines.append(f"{_bar(progress)}{_steps(progress)}")
        lines.append(", ".join(_details(progress)))
    return "\n".join(line[:width] for line in lines if line)


def changes(before: Progress, after: Progress) -> Iterator[str]:
    """Plain lines for what must be said at once: phases, stages, attempts, validations."""
    if after.attempt != before.attempt and (after.attempt or 1) > 1:
        yield f"attempt {after.attempt} on the way"
    if (after.phase, after.waiting_for) != (before.phase, before.waiting_for):
        yield _phase(after)
    if after.stage and after.stage != before.stage:
        yield f"  {_stage(after)}"
    if after.validation and after.validation != before.validation:
        step, loss = after.validation
        yield f"  validation after step {count(step)}: loss {number(loss)}"


def step_line(progress: Progress) -> str:
    """The newest step in a plain line."""
    return "  " + ", ".join([_steps(progress), *_details(progress)])


def stage_line(progress: Progress) -> str:
    """The stage with its rows in a plain line."""
    return f"  {_stage(progress)}"


def _phase(progress: Progress) -> str:
    notes = [progress.waiting_for, progress.reason]
    said = ": ".join(plain(note) for note in notes if note)
    return f"{progress.phase}: {said}" if said else progress.phase


def _stage(progress: Progress) -> str:
    name = plain(progress.stage)
    if progress.completed is None:
        return name
    if progress.total is None:
        return f"{name}: {counted(progress.completed, 'row')}"
    return f"{name}: {count(progress.completed)} of {counted(progress.total, 'row')}"


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
        yield f"{rate:.2f} steps/s" if rate >= 0.1 else f"{duration(1 / rate)} a step"
    if left:
        yield f"{duration(left)} left"
