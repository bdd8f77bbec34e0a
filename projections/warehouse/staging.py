"""The fast way into the table ``metric``: plain columns first, maps made of them in SQL."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import duckdb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PREPARE = files("projections.warehouse").joinpath("staging.sql").read_text("utf-8")
_FINISH = files("projections.warehouse").joinpath("staged.sql").read_text("utf-8")


def prepare(writer: duckdb.DuckDBPyConnection) -> None:
    """Make the tables that live as long as the connection."""
    writer.execute(_PREPARE)


def append(writer: duckdb.DuckDBPyConnection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Append rows of ``metric``, inside the caller's transaction."""
    names: dict[tuple[str, ...], int] = {}
    staged = [_plain(row, names) for row in rows]
    with writer.appender("metric_staged") as appender:
        appender.append_rows(staged)
    with writer.appender("names_staged") as appender:
        appender.append_rows([(number, list(each)) for each, number in names.items()])
    writer.execute(_FINISH)


def _plain(row: tuple[Any, ...], names: dict[tuple[str, ...], int]) -> tuple[Any, ...]:
    position, run_id, attempt, step, at, *values, extra, terms = row
    micros = (at - _EPOCH) // _MICROSECOND
    maps = (*_shared(extra, names), *_shared(terms, names))
    return (position, run_id, attempt, step, micros, *values, *maps)


def _shared(
    values: dict[str, float] | None, names: dict[tuple[str, ...], int]
) -> tuple[int | None, list[float] | None]:
    """The number of the names that ``values`` has, and the values; nothing for nothing."""
    if values is None:
        return None, None
    return names.setdefault(tuple(values), len(names)), list(values.values())
