"""What left a ledger, and what came into one."""

from cli.render.text import count, counted, plain
from cli.wire import Json


def exported(answer: Json) -> str:
    """One line for what was written, and one for each snapshot that was left out."""
    snapshots = answer.get("snapshots") or []
    kept = [each for each in snapshots if not each.get("leftOut")]
    parts = [
        counted(answer["events"], "event"),
        counted(len(answer.get("views") or []), "view"),
        counted(len(kept), "snapshot"),
    ]
    datasets = answer.get("datasets") or []
    if datasets:
        parts.append(f"the rows of {counted(_there(datasets), 'data set')}")
    lines = [
        f"exported {', '.join(parts)} up to position {count(answer['position'])} into "
        f"{plain(answer['into'])}"
    ]
    lines += [
        f"  left out snapshot {plain(each['snapshotId'])}: {plain(each['leftOut'])}"
        for each in snapshots
        if each.get("leftOut")
    ]
    lines += [
        f"  left out data set {plain(each['identity'])}: {plain(each['leftOut'])}"
        for each in datasets
        if each.get("leftOut")
    ]
    return "\n".join(lines) + "\n"


def _there(datasets: list[Json]) -> int:
    """How many of them were not left out."""
    return sum(not each.get("leftOut") for each in datasets)


def filled(answer: Json) -> str:
    """One line for what is in a home now."""
    parts = [counted(answer["events"], "event")]
    if answer.get("snapshots"):
        parts.append(counted(answer["snapshots"], "snapshot"))
    if answer.get("datasets"):
        parts.append(f"the rows of {counted(answer['datasets'], 'data set')}")
    what = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    return f"{plain(answer['home'])} has {what}, up to position {count(answer['position'])}\n"


def goes_on(answer: Json) -> str:
    """What the next server will do with runs that have not ended."""
    runs = counted(answer["openRuns"], "run")
    has = "has" if answer["openRuns"] == 1 else "have"
    return f"{runs} {has} not ended: the next server of this home goes on with what they are about"
