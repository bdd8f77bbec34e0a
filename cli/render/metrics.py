"""The metrics of a run as a table: one step, one line."""

from collections.abc import Iterable, Sequence

from cli.render.table import Column, table
from cli.render.text import number
from cli.wire import Json

FIELDS = ("loss", "grad_norm", "grad_clip_factor", "adapter_norm", "update_ratio", "learning_rate")


def metrics(answer: Json, *, fields: Sequence[str], width: int | None) -> str:
    """The steps and below them the validations; a dash is a value that was not measured.

    The default columns go from the right when the terminal is narrow; ``fields`` all stay.
    """
    steps, validations = answer["steps"], answer.get("validations") or []
    names = list(dict.fromkeys(_names(fields, steps))) or list(FIELDS)
    text = _table(steps, names, width=width, may_drop=not fields) if steps else "no steps yet\n"
    if validations:
        text += "\nvalidation\n" + _validations(validations, fields, width)
    return text


def bucketed(answer: Json, *, fields: Sequence[str], width: int | None) -> str:
    """The buckets, one a line: of each field the mean, the least and the greatest value."""
    rows = [{"measured": each["measured"]} for each in answer["buckets"]]
    names = list(dict.fromkeys(_names(fields, rows)))
    if not rows:
        return "no steps yet\n"
    columns = [Column("steps", right=True)]
    for name in names:
        columns += [Column(f"{name}{part}", right=True) for part in ("", " min", " max")]
    lines = [
        [f"{each['from']}-{each['to']}", *(cell for name in names for cell in _bucket(each, name))]
        for each in answer["buckets"]
    ]
    return table(columns, lines, width)


def _bucket(each: Json, name: str) -> list[str]:
    said = each["measured"].get(name) or {}
    return [number(said.get(part)) for part in ("mean", "min", "max")]


def unmeasured(fields: Sequence[str], rows: list[Json]) -> list[str]:
    """The fields that none of the rows has."""
    names = dict.fromkeys(_names(fields, rows))
    return [name for name in names if all(_measured(row, name) is None for row in rows)]


def _names(fields: Sequence[str], steps: list[Json]) -> Iterable[str]:
    """Each field is one name, or several with commas between; some names have commas themselves."""
    for text in fields:
        if any(_measured(row, text) is not None for row in steps):
            yield text
        else:
            yield from (name for each in text.split(",") if (name := each.strip()))


def _table(rows: list[Json], names: list[str], *, width: int | None, may_drop: bool) -> str:
    columns = [Column("step", right=True), *origin_columns(rows)]
    columns += [
        Column(name, right=True, drop=place if may_drop else None)
        for place, name in enumerate(names)
    ]
    lines = [[row["step"], *origin(row, rows), *_values(row, names)] for row in rows]
    return table(columns, lines, width)


def origin_columns(rows: list[Json]) -> list[Column]:
    """Columns for where rows are from and whether they still count, where they differ in that."""
    columns = [Column("attempt", right=True)] if _has_several(rows) else []
    return [*columns, Column("superseded")] if _has_superseded(rows) else columns


def origin(row: Json, rows: list[Json]) -> list[object]:
    """What stands in these columns."""
    said: list[object] = [row.get("attempt")] if _has_several(rows) else []
    return [*said, _superseded(row)] if _has_superseded(rows) else said


def _has_several(rows: list[Json]) -> bool:
    return len({row.get("attempt") for row in rows}) > 1


def _has_superseded(rows: list[Json]) -> bool:
    return any(row.get("superseded") for row in rows)


def _superseded(row: Json) -> str:
    """Which attempt went back below the row; a dash where it still counts."""
    if not row.get("superseded"):
        return "-"
    by = row.get("supersededBy") or {}
    return f"by attempt {by['attempt']}" if "attempt" in by else "yes"


def _values(row: Json, names: list[str]) -> list[str]:
    return [number(_measured(row, name)) for name in names]


def _measured(row: Json, name: str) -> float | str | None:
    """What the row measured; a reward term is asked for as ``terms:name``."""
    if name.startswith("terms:"):
        return (row.get("rewardTerms") or {}).get(name.removeprefix("terms:"))
    return row["measured"].get(name)  # type: ignore[no-any-return]


def _all_names(rows: list[Json]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["measured"]))


def _in_common(rows: list[Json]) -> list[Json]:
    """The rows with a star in each name where it has that of its set, if there are several sets."""
    if len({row.get("dataset") for row in rows}) < 2:
        return rows
    return [
        row
        | {"measured": {_with_star(name, row): row["measured"][name] for name in row["measured"]}}
        for row in rows
    ]


def _with_star(name: str, row: Json) -> str:
    return name.replace(f"_{row['dataset']}_", "_*_", 1) if row.get("dataset") else name


def _validations(rows: list[Json], fields: Sequence[str], width: int | None) -> str:
    measured = _all_names(rows)
    asked = [name for name in dict.fromkeys(_names(fields, rows)) if name in measured]
    if not asked:  # where a validation has none of the fields, all of it
        rows = _in_common(rows)
    names = asked or _all_names(rows)
    sets = any(row.get("dataset") for row in rows)
    columns = [Column("step", right=True), *origin_columns(rows)]
    columns += [Column("dataset", label=True)] if sets else []
    columns += [
        Column(name, right=True, drop=None if asked else place) for place, name in enumerate(names)
    ]
    lines = [
        [
            row["step"],
            *origin(row, rows),
            *([row.get("dataset") or "-"] if sets else []),
            *_values(row, names),
        ]
        for row in rows
    ]
    return table(columns, lines, width)
