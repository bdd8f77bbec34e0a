"""Histories in tables: CSV, as trackio, W&B, TensorBoard and spreadsheets write it."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cli.histories.history import (
    EXACT,
    LAST_SECOND,
    History,
    broken,
    digest,
    is_validation,
    listed,
)

STEPS = ("step", "steps", "_step", "global_step", "train/global_step", "current_steps", "iteration")
TIMES = ("timestamp", "_timestamp", "wall time", "wall_time")


def read(file: Path, *, step_column: str | None, time_column: str | None) -> History:
    """What a table says; its first line names the columns.

    Raises:
        CommandError: it has no steps, or a cell is wrong.
    """
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise broken(
            f"{file.name} is no UTF-8 text: byte {error.start + 1:,} is not", "save it as UTF-8"
        ) from None
    history = History("csv", file.name, digest(content))
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = _columns(next(rows, []), file.name, step_column, time_column)
        for cells in rows:
            if cells:
                _add(history, columns, cells, f"line {rows.line_num}")
    except csv.Error as error:
        raise broken(
            f"{file.name}, line {rows.line_num} is no CSV: {error}", "nothing was imported"
        ) from None
    return history


class _Columns(NamedTuple):
    """What the first line says: names, and the places of what they are."""

    names: Sequence[str]
    steps: int
    times: int | None
    trained: Sequence[int]
    validated: Sequence[int]


def _columns(
    names: Sequence[str], file: str, step_column: str | None, time_column: str | None
) -> _Columns:
    _check(names, file)
    steps = _column(names, step_column, STEPS, file, "--step-column")
    if steps is None:
        raise broken(
            f"{file} has no column with steps",
            f"name one with --step-column; there are: {listed(names)}",
        )
    times = _column(names, time_column, TIMES, file, "--time-column")
    others = [place for place in range(len(names)) if place not in (steps, times)]
    validated = [place for place in others if is_validation(names[place])]
    trained = [place for place in others if place not in validated]
    return _Columns(names, steps, times, trained, validated)


def _check(columns: Sequence[str], name: str) -> None:
    twice = {each for each in columns if columns.count(each) > 1}
    if twice:
        raise broken(f"{name} has two columns named {listed(twice)}", "rename one of them")


def _column(
    columns: Sequence[str], stated: str | None, usual: Sequence[str], name: str, option: str
) -> int | None:
    """The place of the column that was named, or of one that usually has it."""
    if stated is not None:
        if stated not in columns:
            raise broken(
                f"{name} has no column {stated!r}",
                f"name another with {option}; there are: {listed(columns)}",
            )
        return columns.index(stated)
    words = [each.strip().lower() for each in columns]
    return next((words.index(each) for each in usual if each in words), None)


def _add(history: History, columns: _Columns, cells: Sequence[str], place: str) -> None:
    names, steps, times, trained, validated = columns
    if len(cells) != len(names):
        raise broken(
            f"{history.file}, {place} has {len(cells)} cells, and there are {len(names)} columns",
            "correct the line; nothing was imported",
        )
    step = _step(cells[steps], f"{history.file}, {place}, column {names[steps]}")
    at = None
    if times is not None:
        at = _moment(cells[times], f"{history.file}, {place}, column {names[times]}")
    history.add(place, step, _named(names, cells, trained), at=at)
    if any(cells[each] for each in validated):  # most lines of a long table have no validation
        history.add(place, step, _named(names, cells, validated), validation=True, at=at)


def _step(cell: str, place: str) -> int:
    value = _value(cell)
    if not isinstance(value, float) or not 0 <= value < EXACT or value != int(value):
        raise broken(
            f"{place} is {cell!r:.60}, expected a whole number from 0",
            "correct the cell, or name another column with --step-column; nothing was imported",
        )
    return int(value)


def _named(names: Sequence[str], cells: Sequence[str], places: Sequence[int]) -> dict[str, Any]:
    """What some cells of a line say, by the names of their columns."""
    texts = [cells[each] for each in places]
    values: list[Any] = []
    try:
        if "_" not in "".join(texts):
            values = list(map(float, texts))  # most lines: four times as fast as one by one
    except ValueError:
        pass
    values = values or list(map(_value, texts))
    return dict(zip([names[each] for each in places], values, strict=True))


def _value(cell: str) -> Any:
    """The number of a cell, its text, or None of an empty one."""
    text = cell.strip()
    if not text:
        return None
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def _moment(cell: str, place: str) -> float:
    """Seconds since 1970, of which a cell has the number or the date; without a zone it is UTC."""
    value = _value(cell)
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        value = None
    if value is None or not 0 <= value <= LAST_SECOND:
        raise broken(
            f"{place} is {cell!r:.60}, expected a date or seconds since 1970",
            "correct the cell, or name another column with --time-column; nothing was imported",
        )
    return float(value)
