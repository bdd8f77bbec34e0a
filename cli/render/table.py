"""Tables that never shorten an id: whole columns go first when the terminal is narrow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cli.render.text import cells, cut, plain

_GAP = "  "
_LABEL_COLUMNS = (40, 12)  # a label may have more in a wide terminal, and less in none


@dataclass(frozen=True)
class Column:
    """One column: where its text stands, and when it goes."""

    title: str
    drop: int | None = None  # the highest goes first; None stays whatever the width
    right: bool = False
    label: bool = False  # free text that may be cut


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None) -> str:
    """The rows under their titles in at most ``width`` columns; None: as wide as it gets."""
    texts = [[plain(column.title) for column in columns]]
    texts += [[plain(cell) for cell in row] for row in rows]
    if width is not None:
        texts = _with_cut_labels(columns, texts, width)
    widths = _widths(texts)
    kept = _kept(columns, widths, width)
    return "\n".join(_line(row, columns, widths, kept) for row in texts) + "\n"


def _widths(texts: Sequence[Sequence[str]]) -> list[int]:
    return [max(cells(text) for text in column) for column in zip(*texts, strict=True)]


def _total(widths: Iterable[int]) -> int:
    each = [width + len(_GAP) for width in widths]
    return sum(each) - len(_GAP)


def _with_cut_labels(
    columns: Sequence[Column], texts: list[list[str]], width: int
) -> list[list[str]]:
    """The texts with their labels only as short as the width asks for; columns go after that."""
    most, least = _LABEL_COLUMNS
    for limit in range(max(most, width // 2), least - 1, -2):
        shorter = [
            [
                cut(text, limit) if column.label else text
                for column, text in zip(columns, row, strict=True)
            ]
            for row in texts
        ]
        if _total(_widths(shorter)) <= width:
            break
    return shorter


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int | None) -> list[int]:
    kept = list(range(len(columns)))
    while width is not None and _total(widths[i] for i in kept) > width:
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
