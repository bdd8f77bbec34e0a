"""One attempt of a run in a few lines: what it began from, what it did, how it ended, its cost."""

from collections.abc import Iterator

from cli.render.text import count, counted, device_seconds, number, plain, short, value
from cli.wire import Json

_USES = ("useful", "repeated", "preparing", "waiting", "idle")


def attempt(said: Json, kind: str | None, paid: str | None) -> str:
    """The lines, each about one thing; what there is nothing to say of is left out."""
    return "\n".join(_lines(said, kind, paid))


def _lines(said: Json, kind: str | None, paid: str | None) -> Iterator[str]:
    devices = said.get("devices")
    yield _steps(said) + (f" on {value(devices)}" if devices or devices is None else "")
    if said.get("restoredFrom"):
        yield from _restored(said["restoredFrom"], said.get("note"), said.get("restoreCheck"))
    if said.get("failedSaves"):
        yield _failed_saves(said)
    if said.get("rejectedLines"):
        yield f"{counted(said['rejectedLines'], 'line')} of its reports rejected"
    if said.get("reason"):
        yield f"ended: {plain(said['reason'])}"
    if said.get("rank") is not None and said.get("code") != "rank-hung":  # which names it
        yield _of_rank(said)
    if said.get("superseded"):
        yield _taken_back(said["superseded"])
    cost = said.get("cost") or {}
    if cost.get("split", {}) is not None:  # what an imported run cost is not known
        yield _cost(cost, kind, paid)


def _of_rank(said: Json) -> str:
    """Which of the worker's processes ended the others, and how."""
    how = f"with exit code {said.get('exitCode')}"
    if said.get("signal") is not None:
        how = f"by signal {said['signal']}"
    return f"rank {said['rank']} of {len(said.get('devices') or [])} ended first, {how}"


def _steps(said: Json) -> str:
    first, last = said.get("firstStep"), said.get("lastStep")
    return "no step" if first is None or last is None else _range(first, last)


def _range(first: int, last: int) -> str:
    return f"step {count(first)}" if first == last else f"steps {count(first)} to {count(last)}"


def _restored(restored: Json, note: str | None, check: Json | None) -> Iterator[str]:
    """What the attempt began from, how well that went, and what it could not begin from."""
    if restored.get("snapshotId") is None:
        yield plain(note or "from the start")
    else:
        place = f"from step {count(restored['step'])} (snapshot {short(restored['snapshotId'])})"
        yield f"{place}, restored {_agreement(check)}" if check else place
    loss = (check or {}).get("firstLoss")
    if loss:
        before, after = number(loss["before"]), number(loss["after"])
        yield f"loss of step {count(loss['step'])} was {before}, now {after}"
    for each in restored.get("skipped") or []:
        yield _skipped(each)


def _skipped(damaged: Json) -> str:
    """A newer snapshot that could not be used; its id, unless the reason has it."""
    snapshot, step, reason = damaged["snapshotId"], damaged.get("step"), plain(damaged["reason"])
    where = f" step {count(step)}" if step is not None else ""
    which = "" if short(snapshot) in reason else f" (snapshot {short(snapshot)})"
    return f"skipped{where}{which}: {reason}"


def _agreement(check: Json) -> str:
    """How what was restored agrees with what was saved, and which parts do not quite."""
    if check["verdict"] == "exact":
        return "exactly"
    parts = [f"{plain(name)} {each}" for name, each in check["parts"].items() if each != "exact"]
    word = "within" if check["verdict"] == "within" else "with a difference"
    if check["verdict"] == "within":
        word = f"within {number(check['within'])}" if check.get("within") is not None else "nearly"
    return f"{word} ({', '.join(parts)})" if parts else word


def _taken_back(gone: Json) -> str:
    which = _range(gone["fromStep"], gone["toStep"])
    return f"taken back later: {which} ({counted(gone['steps'], 'step')} to repeat)"


def _failed_saves(said: Json) -> str:
    newest = (said.get("saveFailures") or ["the reason is not known"])[-1]
    return f"{counted(said['failedSaves'], 'save')} failed, the last one: {plain(newest)}"


def _cost(cost: Json, kind: str | None, paid: str | None) -> str:
    """Device time with what it was for, as far as it was for anything."""
    said = device_seconds(cost.get("deviceSeconds") or 0, kind)
    if cost.get("estimate"):
        said += ", estimate"
    split = cost.get("split") or {}
    uses = [f"{split[f'{use}Seconds']:,.1f} {use}" for use in _USES if split.get(f"{use}Seconds")]
    said += f" ({', '.join(uses)})" if uses else ""
    return f"{said}, {paid}" if paid else said
