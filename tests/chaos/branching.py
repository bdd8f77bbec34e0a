"""Branches that are asked for while servers die: one token, one child, and nothing half made."""

import threading
import time
import urllib.error
from random import Random
from typing import Any

from tests.chaos.world import ENDS, World, until

PARENT = [{"training": 4}, {"steps": 4, "saveEvery": 2}, {"model": True}]
CHILD_UPDATES = 2
WITHIN_SECONDS = 0.15  # of the request, the server dies: its answer and preparation take about that


def check_branching(world: World, rng: Random, *, kills: int) -> str:
    """Ask for so many children of one snapshot, killing the server in each; what was found.

    Raises:
        AssertionError: a child is missing or double, a run is half made, or a source is still held.
    """
    parent = world.post("/v1/runs", {"plan": _plan()})["runId"]
    record = _ended(world, parent)
    source = record["saved"]["snapshotId"]
    before = world.get(f"/v1/runs/{parent}")

    tokens = [f"branching-{number}" for number in range(kills)]
    answers = [_ask_while_it_dies(world, rng, parent, source, token) for token in tokens]
    children = [_created(world, parent, token) for token in tokens]
    ended = [_ended(world, child) for child in children]

    assert len(set(children)) == kills, children
    assert children == answers, "what was answered is what became of it"
    assert {each["observedStep"] for each in ended} == {CHILD_UPDATES}
    listed = world.get(f"/v1/runs/{parent}/branches?limit=100")["branches"]
    assert [each["childRunId"] for each in listed] == children[::-1], "one branch a token"
    runs = world.get("/v1/runs?limit=500")["runs"]
    assert {each["runId"] for each in runs} == {parent, *children}, "no run that nobody asked for"
    until(lambda: world.get(f"/v1/snapshots/{source}")["heldBy"] == [])
    assert world.get(f"/v1/runs/{parent}") == before, "its children changed nothing of the parent"
    verdict = world.post("/v1/audit")
    assert verdict["ok"], verdict["faults"]
    return f"{kills} servers killed while they branched: {len(children)} tokens, as many children\n"


def _plan() -> dict[str, Any]:
    return {
        "baseModel": "a base model",
        "dataset": "a data set",
        "config": {"maxSteps": 4},
        "engine": {"sim": PARENT},
    }


def _ask_while_it_dies(world: World, rng: Random, parent: str, source: str, token: str) -> str:
    """The child that the token reaches, whenever the server was killed."""
    killer = threading.Thread(target=_kill_soon, args=(world, rng.uniform(0, WITHIN_SECONDS)))
    body = {"snapshot": source, "steps": CHILD_UPDATES, "submissionId": token}
    killer.start()

    def answered() -> Any:
        try:
            return world.post(f"/v1/runs/{parent}:branch", body)["childRunId"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None
        except OSError:
            return None

    first = until(answered)
    killer.join()
    again: str = until(answered)
    assert first == again, f"{token} reaches two children"
    return again


def _kill_soon(world: World, seconds: float) -> None:
    time.sleep(seconds)
    world.kill_server()


def _created(world: World, parent: str, token: str) -> str:
    """The child of a token, once it is a run."""

    def decided() -> Any:
        path = f"/v1/runs/{parent}/branches?submission={token}"
        branch = world.insist(path)["branches"][0]
        return branch if branch["state"] in ("created", "refused") else None

    branch = until(decided)
    assert branch["state"] == "created", branch
    child: str = branch["childRunId"]
    return child


def _ended(world: World, run_id: str) -> dict[str, Any]:
    def ended() -> Any:
        record = world.insist(f"/v1/runs/{run_id}")
        return record if record["phase"] in ENDS else None

    record: dict[str, Any] = until(ended)
    assert record["phase"] == "COMPLETED", record["failure"]
    return record
