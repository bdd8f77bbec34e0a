"""What a run cost: time of devices and what it was for, money, and each attempt."""

from collections.abc import Iterator

from cli.render.attempt import attempt
from cli.render.memory import breakdown, peaks
from cli.render.part import Field
from cli.render.text import count, counted, device_seconds, duration, money, plain
from cli.wire import Json

_USES = ("useful", "repeated", "preparing", "waiting", "idle")
_PARTS = ("waiting", "queued", "preparing", "training", "other")


def cost(record: Json) -> Iterator[Field]:
    """The part Cost."""
    spent, timing = record.get("cost") or {}, record.get("timing") or {}
    kind = spent.get("deviceKind")
    is_known = not record.get("imported")
    label = "Device time" if kind == "cpu" or not is_known else "GPU time"
    yield label, _device_time(spent) if is_known else "not known: the run was imported"
    for use in _USES if spent.get("split") else ():
        yield f"  {use}", device_seconds(spent["split"].get(f"{use}Seconds") or 0, kind)
    if spent.get("money"):
        yield "Money", _money(spent["money"])
    yield "Duration", _duration(timing, is_over=not is_known)
    for name in _PARTS:
        millis = (timing.get("split") or {}).get(f"{name}Millis", 0)
        if millis is not None:
            yield f"  {name}", duration(millis / 1000)
    yield "Throughput", _throughput(spent.get("throughput"))
    yield "Device memory", peaks(record.get("memory"))
    held = (record.get("memory") or {}).get("breakdown")
    if held:
        yield "Memory", breakdown(held)
    paid = spent.get("money") or {}
    amounts = {
        each["attempt"]: money(each["amount"], paid["currency"])
        for each in paid.get("perAttempt", ())
    }
    for each in record.get("preparations") or []:
        yield f"Preparation {count(each['preparation'])}", _preparation(each)
    for each in record.get("attempts") or []:
        number = each["attempt"]
        yield f"Attempt {count(number)}", attempt(each, kind, amounts.get(number))


def _preparation(said: Json) -> str:
    """How long it took and how it ended; a preparation holds no devices."""
    lines = [f"{duration(said['hostSeconds'])} without devices"]
    if said.get("rejectedLines"):
        lines.append(f"{counted(said['rejectedLines'], 'line')} of its reports rejected")
    if said.get("reason"):
        lines.append(f"ended: {plain(said['reason'])}")
    return "\n".join(lines)


def _device_time(spent: Json) -> str:
    seconds = spent.get("deviceSeconds") or 0
    said = device_seconds(seconds, spent.get("deviceKind"))
    if seconds >= 60:
        said += f" ({duration(seconds)})"
    return f"{said}, estimate" if spent.get("estimate") else said


def _throughput(pace: Json | None) -> str:
    if not pace:
        return "not measured"
    each, whole = pace["tokensPerSecondPerDevice"], pace["tokensPerSecond"]
    said = f"{each:,.1f} tokens/s per device"
    return said if each == whole else f"{said} ({whole:,.1f} in all)"


def _money(paid: Json) -> str:
    said = (
        f"{money(paid['amount'], paid['currency'])} (devices of profile {plain(paid['profile'])})"
    )
    return f"{said}, estimate" if paid.get("estimate") else said


def _duration(timing: Json, *, is_over: bool) -> str:
    millis = timing.get("durationMillis")
    if millis is None:
        return "not known" if is_over else "-"
    return duration(millis / 1000) + ("" if is_over or timing.get("endedAt") else " so far")
