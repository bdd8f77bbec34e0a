"""The answer to a query as a table, with a line below it that says of when it is."""

import json
from typing import Any

from cli.render.table import Column, table
from cli.render.text import counted, moment, plain
from cli.wire import Json

_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")  # in the names of types whose values are numbers


def table_of(answer: Json, *, width: int | None) -> str:
    """Every row under the names of the columns; a dash is NULL."""
    columns = [
        Column(each["name"], right=_is_number(each["type"]), label=not _is_number(each["type"]))
        for each in answer["columns"]
    ]
    names = [each["name"] for each in answer["columns"]]
    rows = [[_cell(row[name]) for name in names] for row in answer["rows"]]
    return table(columns, rows, width)


def footing(answer: Json) -> str:
    """How many rows there are, and how far the copy goes that they were read from."""
    rows = counted(answer["rowCount"], "row")
    if answer["isCut"]:
        rows = f"only the first {rows}: --limit N has more, -o csv all of them"
    return f"{rows}; as of position {answer['position']}, published {moment(answer['publishedAt'])}"


def _is_number(kind: str) -> bool:
    return kind.endswith(_NUMBERS) or kind.startswith("DECIMAL")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.10g}"
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
