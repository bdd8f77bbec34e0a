"""What the service says about itself, and what the audit found."""

from cli.render.text import count, counted, duration, plain, value
from cli.wire import Json


def info(answer: Json) -> str:
    """Version, home and devices, then each start-up check."""
    devices = answer.get("devices") or {}
    lines = [
        f"trainledger {plain(answer.get('version', '-'))}",
        f"  backend      {value(answer.get('backend'))}",
        f"  home         {value(answer.get('home'))}",
        f"  position     {count(answer.get('position') or 0)}",
        f"  devices      {value(devices.get('slots'))}",
        f"  free         {value(devices.get('free'))}",
    ]
    for name, projection in (answer.get("projections") or {}).items():
        lines.append(f"  {plain(name):<11}  at position {count(projection.get('position') or 0)}")
    lines.append("ready" if answer.get("ready") else "not ready")
    lines += [_check(check) for check in answer.get("checks") or []]
    return "\n".join(lines) + "\n"


def _check(check: Json) -> str:
    verdict = "ok" if check["ok"] else "failed"
    return f"  {verdict:<6}  {plain(check['name'])}: {value(check.get('detail'))}"


def audit(answer: Json) -> str:
    """One line of verdict, then each fault."""
    read = (
        f"{counted(answer['events'], 'event')} of {counted(answer['streams'], 'stream')} "
        f"up to position {count(answer['position'])} in {duration(answer['seconds'])}"
    )
    faults = answer.get("faults") or []
    if answer["ok"]:
        return f"the ledger is whole: {read}\n"
    verdict = f"{counted(len(faults), 'fault')} found: {read}"
    return "\n".join([verdict, *(_fault(fault) for fault in faults)]) + "\n"


def _fault(fault: Json) -> str:
    where = [fault.get("stream") or fault.get("projection")]
    if fault.get("version") is not None:
        where.append(f"version {fault['version']}")
    places = " ".join(plain(each) for each in where if each)
    return f"  {plain(fault['verdict'])} {places}: {plain(fault.get('detail') or '-')}"
