"""A number of a run as a chart of the terminal. Imports plotille: load it late."""

import functools
import math
from typing import Any

import plotille

from cli.render.text import cells, count, counted, plain
from cli.wire import Json

HEIGHT = 15  # lines of the chart itself
DOTS = 2  # of braille beside one another in a column
AXES = 24  # columns for what stands left and right of it
_TICK = 10  # columns between two labels of steps
_FEWEST_DIGITS, _MOST_DIGITS = 4, 8  # of a value at its axis
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
    for kind in (float, int):
        figure.register_label_formatter(kind, functools.partial(_label, width=width))
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    space = (high - low) / 20 or abs(high) / 20 or 1.0
    figure.set_y_limits(min_=low - space, max_=high + space)
    first, last = steps
    figure.set_x_limits(min_=first, max_=last if last > first else first + 1)
    return figure


def _label(value: float, chars: int, delta: float, *, width: int, left: bool = False) -> str:
    """A number of an axis in so many columns, where ``delta`` is what the whole axis spans.

    Steps are whole, and those between two of them have no label. Values have the digits that tell
    one line from the next.
    """
    text = _step(value, delta * _TICK / width) if left else _value(value, delta / HEIGHT)
    space = " " * (chars - cells(text))
    return text + space if left else space + text


def _step(value: float, apart: float) -> str:
    return count(round(value)) if abs(value - round(value)) <= apart / 2 else ""


def _value(value: float, apart: float) -> str:
    before = math.floor(math.log10(abs(value))) + 1 if value else 0
    behind = -math.floor(math.log10(apart)) if apart > 0 else 0
    digits = min(max(before + behind, _FEWEST_DIGITS), _MOST_DIGITS)
    return f"{float(f'{value:.{digits}g}'):.{max(digits, 6)}g}"  # 12340, and not 1.234e+04
