"""What the service says about itself."""

from cli.render.text import count, plain, value
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
