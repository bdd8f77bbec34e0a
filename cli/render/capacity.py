"""Devices with the runs that hold them, then the runs that wait."""

from cli.render.table import Column, table
from cli.render.text import counted, moment, plain
from cli.wire import Json

_DEVICES = (
    Column("device"),
    Column("held by"),
    Column("phase", drop=1),
    Column("attempt", drop=3, right=True),
    Column("since", drop=2),
    Column("project", drop=5, label=True),
    Column("name", drop=4, label=True),
)
_MODEL = Column("model", drop=6, label=True)
_NOBODY = ("free", "-", "-", "-", "-", "-")


def capacity(answer: Json, *, width: int | None) -> str:
    """One line for each device, then what each waiting run waits for."""
    devices = answer["devices"]
    models = [each.get("model") for each in devices]
    columns = (*_DEVICES, *([_MODEL] if any(models) else []))
    rows = [
        [*_device(each), *([model or "-"] if any(models) else [])]
        for each, model in zip(devices, models, strict=True)
    ]
    held = table(columns, rows, width)
    waiting = answer["waiting"]
    if not waiting:
        return f"{held}no run waits\n"
    title = f"{counted(len(waiting), 'run')} waiting, the next one first:"
    return "\n".join([held.rstrip("\n"), "", title, *map(_waiting, waiting)]) + "\n"


def _device(each: Json) -> list[object]:
    run = each["heldBy"]
    if run is None:
        return [each["device"], *_NOBODY]
    return [
        each["device"],
        run["runId"],
        run["phase"],
        run["attempt"],
        moment(run["since"]),
        run["project"],
        run["name"] or "-",
    ]


def _waiting(run: Json) -> str:
    return f"  {run['runId']}  waits for {plain(run['waitingFor'] or 'its turn')}"
