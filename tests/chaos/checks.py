"""What must be true of a history, whatever was done to the run and to the server."""

import json
from collections.abc import Iterable
from typing import Any

from ledger.attempt import EVENT_OF
from projections.wire import kind_of
from tests.chaos.history import ROLLOUTS, History
from tests.chaos.world import World, until

REPORTS = {kind: kind_of(event) for kind, event in EVENT_OF.items()}


def check(world: World, history: History) -> None:
    """Raise where a promise was broken, with what was done to the run.

    Raises:
        AssertionError: it was.
    """
    record = world.insist(f"/v1/runs/{history.run_id}")
    _right_end(history, record)
    _every_line_once(world, history, record)
    _paid_for(history, record)
    if record["phase"] == "COMPLETED":
        _whole_series(world, history)


def check_world(world: World) -> None:
    """What must be true of the home once every run has ended.

    Raises:
        AssertionError: it is not.
    """
    verdict = world.post("/v1/audit")
    assert verdict["ok"], verdict["faults"]
    info = world.get("/v1/info")
    assert sorted(info["devices"]["free"]) == sorted(info["devices"]["slots"])
    until(lambda: not list(world.processes()))


def _right_end(history: History, record: dict[str, Any]) -> None:
    if record["phase"] == "CANCELLED":
        assert history.was_cancelled, history
    else:
        assert record["phase"] == "COMPLETED", (history, record["failure"])


def _every_line_once(world: World, history: History, record: dict[str, Any]) -> None:
    """The events of an attempt are the lines of its spool, from the first on, each once."""
    events = _events(world, history)
    for attempt in record["attempts"]:
        number = attempt["attempt"]
        spool = world.folder(history.run_id, number) / "spool" / "rank0.jsonl"
        lines = spool.read_text().splitlines() if spool.exists() else []
        said = [(REPORTS[line["kind"]], line.get("step")) for line in map(json.loads, lines)]
        taken = [
            (each["kind"], each.get("step"))
            for each in events
            if each.get("attempt") == number and _is_report(each)
        ]
        assert taken == said[: len(taken)], (history, number)
        assert len(taken) == len(said) or attempt["endClass"] != "completed", (history, number)
        assert attempt["rejectedLines"] == 0, (history, attempt["rejections"])


def _is_report(event: dict[str, Any]) -> bool:
    """Whether a worker said it; the server says ``restored`` of an attempt that begins so."""
    is_said = event["kind"] != "restored" or event["principal"].startswith("attempt/")
    return is_said and event["kind"] in REPORTS.values()


def check_models(world: World, histories: list[History]) -> None:
    """Whatever happened to them, equal plans made the same adapter, bit for bit.

    Raises:
        AssertionError: they did not.
    """
    records = [world.insist(f"/v1/runs/{each.run_id}") for each in histories]
    made = [each["results"]["model"]["sha256"] for each in records if each["phase"] == "COMPLETED"]
    assert len(set(made)) <= 1, made


def _events(world: World, history: History) -> list[dict[str, Any]]:
    request = f"/v1/runs/{history.run_id}/events"
    events = world.lines(request)
    positions = [each["position"] for each in events]
    assert positions == sorted(set(positions)), history
    return events


def _paid_for(history: History, record: dict[str, Any]) -> None:
    """A run cost what its attempts did, and each attempt what its parts did."""
    whole = record["cost"]
    assert not whole["estimate"], history
    attempts = [each["cost"] for each in record["attempts"]]
    assert _is_sum(whole["deviceSeconds"], [each["deviceSeconds"] for each in attempts]), history
    for each in (whole, *attempts):
        assert _is_sum(each["deviceSeconds"], each["split"].values()), history


def _is_sum(whole: float, parts: Iterable[float]) -> bool:
    return abs(whole - sum(parts)) < 1e-6


def _whole_series(world: World, history: History) -> None:
    """Updates 1 to n, each once, with the numbers and the rollouts of an undisturbed run."""
    steps = world.insist(f"/v1/runs/{history.run_id}/metrics")["steps"]
    assert [each["step"] for each in steps] == list(range(1, history.updates + 1)), history
    whole = world.insist(f"/v1/runs/{history.run_id}/metrics?superseded=true")["steps"]
    if history.is_scripted:
        scored = world.insist(f"/v1/runs/{history.run_id}/rollouts")
        assert scored["steps"] == [each["step"] for each in steps], history
        assert scored["count"] == ROLLOUTS, history
    losses: dict[int, set[float]] = {}
    for each in whole:
        losses.setdefault(each["step"], set()).add(each["measured"]["loss"])
    assert all(len(values) == 1 for values in losses.values()), history
