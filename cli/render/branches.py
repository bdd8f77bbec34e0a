"""Branches: one in a line, many as a table, and the head of a preview."""

from cli.render.table import Column, table
from cli.render.text import count, counted, moment, plain, short
from cli.wire import Json

_COLUMNS = (
    Column("run"),
    Column("state", drop=1),
    Column("from step", drop=2, right=True),
    Column("snapshot", drop=6),
    Column("restore", drop=5),
    Column("steps", drop=3, right=True),
    Column("config", drop=4),
    Column("requested", drop=8),
    Column("name", drop=7, label=True),
)


def said(branch: Json) -> str:
    """How far a branch is, and where it was refused why and what to do."""
    line = f"run {plain(branch['childRunId'])} {plain(branch['state'])}"
    refusal = branch.get("refusal")
    return f"{line}: {plain(refusal['reason'])}; {plain(refusal['advice'])}" if refusal else line


def branches(rows: list[Json], *, width: int | None) -> str:
    """One line for each branch, its child's id always whole, and why some were refused."""
    if not rows:
        return "no branches\n"
    refused = "".join(f"{said(each)}\n" for each in rows if each.get("refusal"))
    shown = table(_COLUMNS, [_row(each) for each in rows], width)
    return f"{shown}\n{refused}" if refused else shown


def _row(branch: Json) -> list[object]:
    return [
        branch["childRunId"],
        branch["state"],
        count(branch["sourceStep"]),
        short(branch["snapshotId"]),
        branch["restore"],
        count(branch["steps"]),
        short(branch["configHash"]),
        moment(branch["requestedAt"]),
        branch.get("configName") or "-",
    ]


def previewed(preview: Json) -> str:
    """Comments that stand before the resolved plan of a child."""
    origin = preview["origin"]
    return (
        f"# a branch of run {plain(origin['parent'])} from snapshot {short(origin['snapshotId'])}\n"
        f"# (step {count(origin['step'])}, {plain(origin['restore'])}), "
        f"for {counted(preview['steps'], 'update')}\n"
    )
