"""The report: every figure in one table, or as JSON."""

import json
from collections.abc import Mapping

from benchmarks.result import Figure, Result

COLUMNS = ("figure", "ours", "floor", "ratio", "aim", "met")


def table(results: Mapping[str, Result]) -> str:
    """Rows under their benchmark, numbers to the right."""
    cells = {name: [_cells(figure) for figure in found.figures] for name, found in results.items()}
    widths = [
        max(len(row[n]) for row in (COLUMNS, *(row for rows in cells.values() for row in rows)))
        for n in range(len(COLUMNS))
    ]
    lines = [_line(COLUMNS, widths)]
    for name, rows in cells.items():
        lines += ["", f"{name}: {results[name].note}"] + [_line(row, widths) for row in rows]
    return "\n".join(lines)


def as_json(results: Mapping[str, Result]) -> str:
    """One object for each figure, under its benchmark."""
    said = {
        name: {"note": result.note, "figures": [_fields(each) for each in result.figures]}
        for name, result in results.items()
    }
    return json.dumps({"benchmarks": said}, indent=2)


def _fields(figure: Figure) -> dict[str, object]:
    return {
        "figure": figure.name,
        "ours": figure.ours,
        "floor": figure.floor,
        "unit": figure.unit,
        "ratio": figure.ratio,
        "aim": figure.aim or None,
        "met": figure.met,
    }


def _cells(figure: Figure) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: ""}[figure.met]
    return (
        figure.name,
        _number(figure.ours, figure.unit),
        _number(figure.floor, figure.unit),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        figure.aim,
        met,
    )


def _number(value: float | None, unit: str) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    text = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *numbers, aim, met = cells
    *middle, aim_width, _ = widths[1:]
    return "  ".join(
        [
            f"  {first:<{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in zip(numbers, middle, strict=True)),
            f"{aim:<{aim_width}}",
            met,
        ]
    ).rstrip()
