"""Tables that never shorten an id: whole columns go first when the terminal is narrow."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli.render.text import cells, cut, plain

_GAP = "  "
_LABEL_COLUMNS = 32  # a longer label is cut before any column is dropped


@dataclass(frozen=True)
class Column:
    """One column: where its text stands, and when it goes."""

    title: str
    drop: int | None = None  # the highest goes first; None stays whatever the width
    right: bool = False
    label: bool = False  # free text that may be cut


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None) -> str:
    """The rows under their titles in at most ``width`` columns; None: as wide as it gets."""
    texts = [[plain(cell) for cell in row] for row in rows]
    if width is not None:
        texts = [
            [
                cut(text, _LABEL_COLUMNS) if column.label else text
                for column, text in zip(columns, row, strict=True)
            ]
            for row in texts
        ]
    widths = [
        max([cells(column.title), *(cells(row[i]) for row in texts)])
        for i, column in enumerate(columns)
    ]
    kept = _kept(columns, widths, width)
    head = [column.title for column in columns]
    return "\n".join(_line(row, columns, widths, kept) for row in [head, *texts]) + "\n"


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int | None) -> list[int]:
    kept = list(range(len(columns)))
    while width is not None and sum(widths[i] + len(_GAP) for i in kept) - len(_GAP) > width:
        droppable = [(drop, i) for i in kept if (drop := columns[i].drop) is not None]
        if not droppable:
            break
        kept.remove(max(droppable)[1])
    return kept


def _line(
    row: Sequence[str], columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int]
) -> str:
    parts = []
    for i in kept:
        space = " " * (widths[i] - cells(row[i]))
        parts.append(space + row[i] if columns[i].right else row[i] + space)
    return _GAP.join(parts).rstrip()
