"""A preparation over HTTP: what its runner delivers, and where people read of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.events import Job
from tests import apis, ledgers
from tests.apis import Api

FIRST = Job(1, "preparation")
STAGE = '{"kind": "stage", "stage": "tokenizing", "completed": 0, "total": 600}'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def deliver(api: Api, run_id: str, *lines: str, job: Job = FIRST, **more: Any) -> Any:
    """What the runner of the preparation hears."""
    body = {"first": 1, "lines": list(lines), "runner": apis.RUNNER} | more
    path = f"/v1/runs/{run_id}/{job.kind}s/{job.number}/reports"
    return api.client.post(path, json=body, headers=api.token_of_job(run_id, job))


def test_a_delivery_of_a_preparation_is_heard_and_told(api: Api) -> None:
    """S30, S32, S33: under its own number, with the stage and its rows."""
    run_id = ledgers.preparing(api.service.ledger)

    heard = apis.strict(deliver(api, run_id, STAGE), 200)

    assert heard == {"taken": 1, "request": None, "closed": False}
    record = api.get(f"/v1/runs/{run_id}")
    assert record["phase"] == "PREPARING"
    assert record["stage"] == {"name": "tokenizing", "completed": 0, "total": 600}
    assert record["attempts"] == []
    (listed,) = [each for each in api.get("/v1/runs")["runs"] if each["runId"] == run_id]
    assert listed["stage"] == record["stage"]
    events = [json.loads(line) for line in api.events(run_id).splitlines()]
    (told,) = [each for each in events if each["kind"] == "stageReported"]
    assert told["preparation"] == 1
    assert "attempt" not in told


def test_its_end_is_the_end_of_the_phase_and_of_its_reports(api: Api) -> None:
    """S29, S41: it waits for devices now; a late delivery changes nothing."""
    run_id = ledgers.preparing(api.service.ledger)

    ended = apis.strict(deliver(api, run_id, apis.COMPLETED, exit=apis.EXIT), 200)
    late = apis.strict(deliver(api, run_id, STAGE, first=2), 200)

    assert ended == {"taken": 1, "request": None, "closed": True}
    assert late["closed"] is True
    record = api.get(f"/v1/runs/{run_id}")
    assert record["phase"] == "WAITING"
    assert [each["outcome"] for each in record["preparations"]] == ["completed"]


def test_the_receipt_proves_what_a_preparation_said(api: Api) -> None:
    """I16: the head of its stream, and how many lines it reported."""
    run_id = ledgers.preparing(api.service.ledger)
    deliver(api, run_id, STAGE)

    receipt = api.get(f"/v1/runs/{run_id}/receipt")

    heads = {each["stream"]: each["version"] for each in receipt["heads"]}
    assert heads[f"run/{run_id}/p1"] == 1
    assert {"principal": "preparation/1", "did": {"reports": 1}} in receipt["principals"]


def test_what_a_preparation_printed_can_be_read(api: Api) -> None:
    """S81: by default of a run that has had no attempt, else by its number."""
    run_id = ledgers.preparing(api.service.ledger)
    folder: Path = api.service.attempts / run_id / "p1"
    folder.mkdir(parents=True)
    (folder / "worker.log").write_text("a traceback\n")

    assert api.logs(run_id) == "a traceback\n"
    deliver(api, run_id, apis.COMPLETED, exit=apis.EXIT)
    ledgers.open_attempt(api.service.ledger, run_id)
    assert api.logs(run_id) == ""
    assert api.logs(run_id, preparation=1) == "a traceback\n"
    problem = api.get(f"/v1/runs/{run_id}/logs", 404, preparation=2)
    assert problem["type"] == "/problems/preparation-not-found"
    assert problem["detail"] == f"run {run_id} has no preparation 2; it has 1"


def test_a_run_that_was_never_prepared_has_no_such_log(api: Api) -> None:
    run_id = api.started()

    problem = api.get(f"/v1/runs/{run_id}/logs", 404, preparation=1)

    assert problem["detail"] == f"run {run_id} has no preparation 1; it has none"
