"""What an audit found, who did what to a run, and a receipt of one page."""

import re
from collections.abc import Iterator

from cli.render.part import Field, part
from cli.render.table import Column, table
from cli.render.text import (
    count,
    counted,
    device_seconds,
    duration,
    fact,
    moment,
    money,
    plain,
    short,
    size,
)
from cli.wire import Event, Json

_COLUMNS = (
    Column("position", right=True),
    Column("when (UTC)"),
    Column("who"),
    Column("what"),
)
_IDS = frozenset({"snapshotId", "tokenSha256", "planSha256", "requestSha256", "sha256"})
_LONG = frozenset({"writer", "path", "uri", "advice", "lastSignAt"})  # not on one line of a log
_MADE_FROM = {"published copy": "warehouse"}
_MOST = 100  # characters of a fact on one line


# -- the verdict -----------------------------------------------------------------------------------


def verdict(answer: Json) -> str:
    """One line of verdict, what the seals say, then each fault."""
    faults = answer.get("faults") or []
    read = (
        f"{counted(answer['events'], 'event')} of {counted(answer['streams'], 'stream')} "
        f"up to position {count(answer['position'])} in {duration(answer['seconds'])}"
    )
    what = f"run {plain(answer['runId'])}" if answer.get("runId") else "the ledger"
    head = f"{what} is whole" if answer["ok"] else f"{counted(len(faults), 'fault')} found"
    lines = [f"{head}: {read}", *_seals(answer.get("seals")), *_unknown(answer)]
    return "\n".join([*lines, *(_fault(each) for each in faults)]) + "\n"


def remedy(faults: list[Json]) -> str:
    """What to do about what was found."""
    if any(each["verdict"] != "projectionDiffers" for each in faults):
        return (
            "docs/audit.md says what each fault means; a backup, an export or a receipt made "
            "before tells what was there"
        )
    names = {_MADE_FROM.get(each["projection"], str(each["projection"])) for each in faults}
    only = f" --projection {names.pop()}" if len(names) == 1 else ""
    return f"the ledger is whole; have made anew what differs: trainledger audit rebuild{only}"


def _seals(seals: Json | None) -> Iterator[str]:
    if not seals:
        return
    if not seals["count"]:
        yield "  nothing is sealed yet"
        return
    yield f"  {counted(seals['count'], 'seal')} up to position {count(seals['upto'])}"
    if seals["signed"]:
        checked = "" if seals["signaturesChecked"] else ", which this server cannot check"
        yield f"  {count(seals['signed'])} signed{checked}, by"
        yield from (f"    {plain(key)}" for key in seals["keys"])


def _unknown(answer: Json) -> Iterator[str]:
    for topic, events in (answer.get("unknownTopics") or {}).items():
        yield f"  {counted(events, 'event')} of a later version: {plain(topic)}"


def _fault(fault: Json) -> str:
    where = [fault.get("stream") or fault.get("projection")]
    if fault.get("version") is not None:
        where.append(f"version {fault['version']}")
    if fault.get("position") is not None:
        where.append(f"position {fault['position']}")
    if fault.get("runId"):
        where.append(f"run {fault['runId']}")
    places = " ".join(plain(each) for each in where if each)
    return f"  {plain(fault['verdict'])} {places}: {plain(fault.get('detail') or '-')}"


# -- the log ---------------------------------------------------------------------------------------


def log(answer: Json, *, width: int | None) -> str:
    """One line for each event."""
    rows = [
        (
            count(each["position"]),
            moment(each["at"]).removesuffix(" UTC"),
            each["principal"],
            _what(each),
        )
        for each in answer["events"]
    ]
    return table(_COLUMNS, rows, width)


def _what(event: Event) -> str:
    """An event in words, with those of its facts that are short."""
    facts = [
        f"{name} {_short(name, value)}"
        for name, value in event["facts"].items()
        if name not in _LONG and not isinstance(value, dict | list)
    ]
    said = _words(event["kind"])
    return f"{said}: {', '.join(facts)}" if facts else said


def _short(name: str, value: object) -> str:
    if name in _IDS:
        return short(str(value))
    text = fact(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def _words(kind: str) -> str:
    """The name of a kind of event in words: ``attemptOpened`` is ``attempt opened``."""
    return re.sub("[A-Z]", lambda found: f" {found[0].lower()}", plain(kind))


# -- the receipt -----------------------------------------------------------------------------------


def receipt(answer: Json, *, width: int | None) -> str:
    """The page; digests stay whole, since they are what it is for."""
    parts = [
        part("Run", _run(answer), width),
        part("Bill", _bill(answer["bill"]), width),
        part("Who did what", _people(answer["principals"]), width),
        part("Snapshots", _snapshots(answer["snapshots"]), None),
        part("Newest events", _heads(answer["heads"]), None),
        part("Seal", _seal(answer["seal"]), None),
    ]
    return "\n".join(parts)


def _run(answer: Json) -> Iterator[Field]:
    plan, model = answer["plan"], answer.get("model")
    yield "Run", plain(answer["runId"])
    if answer.get("name"):
        yield "Name", plain(answer["name"])
    yield "Project", plain(answer["project"])
    yield "Phase", plain(answer["phase"])
    yield "Submitted", moment(answer["submittedAt"])
    yield "Ended", moment(answer.get("endedAt"))
    yield (
        "Plan",
        f"{plain(plan['method'])} of {_or_unknown(plan['baseModel'])} "
        f"on {_or_unknown(plan['dataset'])}",
    )
    yield "", f"sha256 {plain(plan['sha256'])}"
    if model and model.get("sha256"):
        yield "Model", f"sha256 {plain(model['sha256'])}"


def _or_unknown(label: str | None) -> str:
    return "what is not known" if label is None else plain(label)


def _bill(bill: Json) -> Iterator[Field]:
    if bill["deviceSeconds"] is None:
        yield "Device time", "not known: the run was imported"
        return
    kind, paid = bill.get("deviceKind"), bill.get("money")
    said = device_seconds(bill["deviceSeconds"], kind)
    yield "Device time", f"{said}, estimate" if bill.get("estimate") else said
    uses = {name.removesuffix("Seconds"): spent for name, spent in bill["split"].items() if spent}
    if uses:
        yield "  for", ", ".join(f"{plain(use)} {spent:,.1f}" for use, spent in uses.items())
    if paid:
        yield "Money", money(paid["amount"], paid["currency"])


def _people(principals: list[Json]) -> Iterator[Field]:
    for each in principals:
        did = [
            _words(kind) if times == 1 else f"{_words(kind)} ({count(times)})"
            for kind, times in each["did"].items()
        ]
        yield plain(each["principal"]), ", ".join(did)


def _snapshots(snapshots: list[Json]) -> Iterator[Field]:
    if not snapshots:
        yield "none", ""
    for each in snapshots:
        said = f"{plain(each['status'])}, {size(each['sizeBytes'])}"
        yield f"step {count(each['step'])}", f"{plain(each['snapshotId'])}\n{said}"


def _heads(heads: list[Json]) -> Iterator[Field]:
    for each in heads:
        where = f"version {count(each['version'])}, position {count(each['position'])}"
        yield plain(each["stream"]), f"{plain(each['digest'])}\n{where}"


def _seal(seal: Json | None) -> Iterator[Field]:
    if seal is None:
        yield "none yet", "the ledger is sealed every few minutes, and when a run has ended"
        return
    yield "Seal", f"{count(seal['version'])}, written {moment(seal['at'])}"
    yield "Covers", f"{counted(seal['events'], 'event')} up to position {count(seal['upto'])}"
    yield "Digest", plain(seal["digest"])
    yield "Signature", plain(seal.get("signature") or "not signed")
    if seal.get("publicKey"):
        yield "Public key", plain(seal["publicKey"])
