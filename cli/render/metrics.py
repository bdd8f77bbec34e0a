"""The metrics of a run as a table: one step, one line."""

from collections.abc import Sequence

from cli.render.table import Column, table
from cli.render.text import number
from cli.wire import Json

FIELDS = ("loss", "grad_norm", "grad_clip_factor", "adapter_norm", "update_ratio", "learning_rate")


def metrics(answer: Json, *, fields: Sequence[str] | None, width: int | None) -> str:
    """The steps and below them the validations; a dash is a value that was not measured.

    The default columns go from the right when the terminal is narrow; ``fields`` all stay.
    """
    steps, validations = answer["steps"], answer.get("validations") or []
    names = list(fields) if fields else list(FIELDS)
    text = _table(steps, names, width=width, may_drop=not fields) if steps else "no steps yet\n"
    if validations:
        text += "\nvalidation\n" + _validations(validations, width)
    return text


def _table(rows: list[Json], names: list[str], *, width: int | None, may_drop: bool) -> str:
    several = len({row.get("attempt") for row in rows}) > 1
    columns = [Column("step", right=True)]
    columns += [Column("attempt", right=True)] if several else []
    columns += [
        Column(name, right=True, drop=place if may_drop else None)
        for place, name in enumerate(names)
    ]
    lines = [
        [row["step"], *([row.get("attempt")] if several else []), *_values(row, names)]
        for row in rows
    ]
    return table(columns, lines, width)


def _values(row: Json, names: list[str]) -> list[str]:
    """What the row measured; a reward term is asked for as ``terms:name``."""
    terms = row.get("rewardTerms") or {}
    return [
        number(
            terms.get(name.removeprefix("terms:"))
            if name.startswith("terms:")
            else row["measured"].get(name)
        )
        for name in names
    ]


def _validations(rows: list[Json], width: int | None) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row["measured"]))
    sets = any(row.get("dataset") for row in rows)
    columns = [Column("step", right=True), *([Column("dataset", label=True)] if sets else [])]
    columns += [Column(name, right=True, drop=place) for place, name in enumerate(names)]
    lines = [
        [row["step"], *([row.get("dataset") or "-"] if sets else []), *_values(row, names)]
        for row in rows
    ]
    return table(columns, lines, width)
