"""The contexts as a table."""

from cli.render.table import Column, table
from cli.wire import Json

_COLUMNS = (
    Column(""),
    Column("name"),
    Column("url"),
    Column("token file", drop=2),
    Column("platform project", drop=1),
)


def listed(answer: Json, *, width: int | None) -> str:
    """One context, one line; a star marks the one that is used."""
    rows = [
        [
            "*" if each["current"] else "",
            each["name"],
            each["url"] or "the server of this home",
            each["tokenFile"] or "-",
            each["platformProject"] or "-",
        ]
        for each in answer["contexts"]
    ]
    return table(_COLUMNS, rows, width)
