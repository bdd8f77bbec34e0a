"""The answer to a query as bytes: JSON, CSV, Parquet or an Arrow stream, written into an open file.

Parquet and CSV are DuckDB's own. The connection that runs the query can write no file, so another
one writes them, which runs nothing but our own statement over the rows that come.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import duckdb
import orjson

from projections import wire

FORMATS = ("json", "csv", "parquet", "arrow")
BLOCK_ROWS = 1_000
_COPY = {
    "csv": "COPY answer TO '{path}' (FORMAT csv, HEADER, USE_TMP_FILE false)",
    "parquet": "COPY answer TO '{path}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)",
}


class Rows(Protocol):
    """Rows that come when they are asked for: what a relation of DuckDB is."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream. Source: Arrow PyCapsule interface."""
        ...


class _Borrowed:
    """Rows of one DuckDB for another, which would take a relation itself for one of its own."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream."""
        return self._rows.__arrow_c_stream__(requested_schema)


def write(
    cursor: duckdb.DuckDBPyConnection,
    query: str,
    file: BinaryIO,
    *,
    form: str,
    limit: int | None,
    facts: dict[str, Any],
) -> bool:
    """Write at most ``limit`` rows into ``file``, and answer whether there are more.

    JSON has ``facts`` as well; of the other formats nobody counts the rows that are left.

    Raises:
        duckdb.Error, OSError, RuntimeError: the query failed on the way, or there is no more room.
    """
    is_cut = False
    if form == "json":
        is_cut = _write_json(cursor.execute(query), file, limit, facts)
    else:
        rows = cursor.sql(query) if limit is None else cursor.sql(query).limit(limit)
        if form == "arrow":
            _write_arrow(rows, file)
        else:
            _copy(rows, _COPY[form].format(path=f"/proc/self/fd/{file.fileno()}"))
    file.flush()
    return is_cut


def _write_arrow(rows: Rows, file: BinaryIO) -> None:
    from nanoarrow.ipc import StreamWriter  # noqa: PLC0415 (most answers need none)

    with StreamWriter.from_writable(file) as writer:
        writer.write_stream(rows)


def _copy(rows: Rows, statement: str) -> None:
    with duckdb.connect(config={"threads": 1, "temp_directory": ""}) as copier:
        copier.register("answer", _Borrowed(rows))
        copier.execute(statement)


# -- JSON ------------------------------------------------------------------------------------------


def _write_json(
    cursor: duckdb.DuckDBPyConnection, file: BinaryIO, limit: int | None, facts: dict[str, Any]
) -> bool:
    described = cursor.description or []
    names = _apart([each[0] for each in described])
    columns = [
        {"name": name, "type": str(each[1])} for name, each in zip(names, described, strict=True)
    ]
    file.write(orjson.dumps(facts | {"columns": columns})[:-1] + b',"rows":[')
    written = 0
    for block in _blocks(cursor, limit):
        told = [orjson.dumps(dict(zip(names, map(plain, row), strict=True))) for row in block]
        file.write((b",\n" if written else b"\n") + b",\n".join(told))
        written += len(told)
    is_cut = written == limit and cursor.fetchone() is not None
    file.write(b'],"rowCount":%d,"isCut":%s}' % (written, b"true" if is_cut else b"false"))
    return is_cut


def _blocks(
    cursor: duckdb.DuckDBPyConnection, limit: int | None
) -> Iterator[list[tuple[Any, ...]]]:
    left = limit
    while left is None or left > 0:
        block = cursor.fetchmany(BLOCK_ROWS if left is None else min(BLOCK_ROWS, left))
        if not block:
            return
        left = None if left is None else left - len(block)
        yield block


def _apart(columns: list[str]) -> list[str]:
    """Names that tell the columns apart: a second ``loss`` is ``loss_1``."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def plain(value: Any) -> Any:
    """A value of any type of DuckDB as JSON; what JSON has no word for is text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int, dict, list, tuple)):
        return _nested(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return wire.plain(value)


def _decimal(value: Decimal) -> float | str:
    """A number where it is exactly that, else its digits."""
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)
