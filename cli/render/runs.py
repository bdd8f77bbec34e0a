"""The list of runs, newest first."""

from datetime import datetime

from cli.render.table import Column, table
from cli.render.text import age, count, number, percent
from cli.wire import Json

_COLUMNS = (
    Column("run"),
    Column("phase", drop=1),
    Column("progress", drop=2, right=True),
    Column("loss", drop=4, right=True),
    Column("project", drop=5, label=True),
    Column("name", drop=6, label=True),
    Column("age", drop=3, right=True),
)


def runs(summaries: list[Json], *, now: datetime, width: int | None) -> str:
    """One line for each run, with its id always whole."""
    if not summaries:
        return "no runs\n"
    return table(_COLUMNS, [_row(each, now) for each in summaries], width)


def _row(summary: Json, now: datetime) -> list[object]:
    progress = summary.get("progress") or {}
    return [
        summary["runId"],
        summary["phase"],
        _progress(progress),
        number(progress.get("lastLoss")),
        summary["project"],
        summary.get("name") or "-",
        age((now - datetime.fromisoformat(summary["submittedAt"])).total_seconds()),
    ]


def _progress(progress: Json) -> str:
    completed, total = progress.get("completed") or 0, progress.get("total")
    if not total:
        return count(completed) if completed else "-"
    return f"{count(completed)}/{count(total)} {percent(completed / total)}"
