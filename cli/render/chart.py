"""A number of a run as a chart of the terminal. Imports plotille: load it late."""

from typing import Any

import plotille

from cli.render.text import cells, count, counted, number, plain
from cli.wire import Json

HEIGHT = 15  # lines of the chart itself
DOTS = 2  # of braille beside one another in a column
AXES = 24  # columns for what stands left and right of it
_LEAST, _MOST = 20, 160  # columns of the chart itself
_BLANK, _BRAILLE = 0x2800, range(0x2801, 0x2900)
_ASCII = {_BLANK: " "} | dict.fromkeys(_BRAILLE, "*")


def columns(width: int | None) -> int:
    """The columns that a chart of this width has itself; in a pipe it is as wide as usual."""
    return max(_LEAST, min(_MOST, (width or 80) - AXES))


def chart(buckets: list[Json], field: str, *, width: int | None, ascii_only: bool) -> str:
    """The field over the steps: from the least to the greatest value of each bucket.

    ``ascii_only``: where the terminal has no braille dots.
    """
    measured = [(each, each["measured"][field]) for each in buckets]
    points = [(each["from"] + each["to"]) / 2 for each, said in measured if said["steps"]]
    bounds = [(said["min"], said["max"]) for _, said in measured if said["steps"]]
    missing = sum(said["notFinite"] for _, said in measured)
    left_out = f"{counted(missing, 'step')} not finite, and not shown\n" if missing else ""
    if not points:
        return left_out or f"{plain(field)}: no step has it\n"
    figure = _figure(columns(width), (buckets[0]["from"], buckets[-1]["to"]), bounds)
    figure.plot(
        [point for point in points for _ in range(2)], [value for pair in bounds for value in pair]
    )
    text = figure.show()
    text = text.translate(_ASCII) if ascii_only else text.replace(chr(_BLANK), " ")
    lines = [line.rstrip() for line in text.split("\n")[1:]]  # without the label: it has no room
    title = f"{plain(field)} over {counted(sum(said['steps'] for _, said in measured), 'step')}"
    return "\n".join([title, *lines]) + f"\n{left_out}"


def _figure(width: int, steps: tuple[int, int], bounds: list[tuple[float, float]]) -> Any:
    """An empty chart from one step to another, for values within these bounds."""
    figure = plotille.Figure()
    figure.with_colors = False
    figure.origin = False
    figure.width, figure.height = width, HEIGHT
    figure.x_label = "step"
    figure.register_label_formatter(float, _label)
    figure.register_label_formatter(int, _label)
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    space = (high - low) / 20 or abs(high) / 20 or 1.0
    figure.set_y_limits(min_=low - space, max_=high + space)
    first, last = steps
    figure.set_x_limits(min_=first, max_=last if last > first else first + 1)
    return figure


def _label(value: float, chars: int, *, left: bool = False, **_: float) -> str:
    """A number of an axis in so many columns; steps are whole."""
    text = count(round(value)) if left else number(float(f"{value:.4g}"))
    space = " " * (chars - cells(text))
    return text + space if left else space + text
