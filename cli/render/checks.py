"""Start checks of a run: how many passed, and those that did not with value and limits."""

from collections.abc import Iterator

from cli.render.text import count, duration, number, plain, size
from cli.wire import Json, Number

_BYTES = "bytes"  # what a unit begins with that is shown in a larger one


def start_checks(said: Json) -> str:
    """One line for all of them, and one for each that did not pass."""
    return "\n".join(_lines(said))


def _lines(said: Json) -> Iterator[str]:
    passed, total = count(said["passed"]), count(said["total"])
    yield f"{passed} of {total} passed in {duration(said['seconds'])}"
    for each in said["checks"]:
        if each["verdict"] != "passed":
            yield _unlike(each)


def _unlike(check: Json) -> str:
    """A check that warned or refused."""
    warn, refuse, unit = check["warnLimit"], check["refuseLimit"], check.get("unit") or ""
    side = "below" if _is_above(warn, refuse) else "above"
    rest = f" {plain(unit.removeprefix(_BYTES).strip())}".rstrip()
    return (
        f"{plain(check['verdict'])}: {plain(check['name'])}, {_said(check['value'], unit)}{rest} "
        f"(warns {side} {_said(warn, unit)}, refuses {side} {_said(refuse, unit)})"
    )


def _is_above(first: Number, second: Number) -> bool:
    return float(first or 0) > float(second or 0)


def _said(value: Number, unit: str) -> str:
    if unit.startswith(_BYTES) and isinstance(value, int | float):
        return size(int(value))
    return number(value)
