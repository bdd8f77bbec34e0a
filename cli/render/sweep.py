"""A sweep as a table: what each point says, and the child that it has."""

from cli.axes import shown
from cli.render.table import Column, table
from cli.render.text import count
from cli.wire import Json


def sweep(points: list[Json], *, width: int | None) -> str:
    """One line for each point; the ids of its children are always whole."""
    names = list(points[0]["values"])
    axes = [Column(name, drop=len(names) - i) for i, name in enumerate(names)]
    are_made = "childRunId" in points[0]
    children = (Column("run"), Column("state", drop=len(names) + 1)) if are_made else ()
    rows = [
        [
            count(number),
            *map(shown, point["values"].values()),
            *((point["childRunId"], point["state"]) if are_made else ()),
        ]
        for number, point in enumerate(points, start=1)
    ]
    columns = (Column("point", drop=len(names) + 2, right=True), *axes, *children)
    return table(columns, rows, width)
