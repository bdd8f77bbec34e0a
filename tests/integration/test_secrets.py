"""Secrets that came in by any door are in no file of the home and in no answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import apis, ledgers
from tests.apis import Api

SECRET = "hunter2Zq81"
URL = f"https://ana:{SECRET}@data.example/rows.jsonl?token={SECRET}&page=2"
CLEAN = "https://***@data.example/rows.jsonl?token=***&page=2"
PLAN = ledgers.DOCUMENT | {
    "dataset": URL,
    "name": f"with password={SECRET}",
    "description": f"of {URL}",
}


def told(**facts: Any) -> str:
    return json.dumps(facts)


CHAT = [{"role": "user", "content": f"use {URL}", "api_key": SECRET}]


def lines() -> list[str]:
    """What a worker says that knows too much."""
    return [
        told(kind="hparams", values={"hub_token": SECRET, "num_memory_tokens": 4, "data": URL}),
        told(kind="engineConfig", requested={"env": {"HF_TOKEN": SECRET}}, resolved={"url": URL}),
        told(kind="nix", credentials={"user": SECRET}),
        told(kind="validation", step=0, dataset=URL, measured={"loss": 1.0}),
        told(kind="rollouts", step=1, rollouts=[{"prompt": CHAT, "completion": URL, "score": 1}]),
        f'{{"kind": "step", "api_key": "{SECRET}", ',
        *ledgers.step_lines(1, 3),
    ]


def everywhere(home: Path) -> list[str]:
    """The files of a home that have the secret in them."""
    files = [each for each in home.rglob("*") if each.is_file()]
    assert any(each.name == "ledger.db" for each in files)
    return sorted(each.name for each in files if SECRET.encode() in each.read_bytes())


def filled(api: Api) -> str:
    """A run to which secrets came by every door that there is."""
    run_id = str(api.post("/v1/runs", {"plan": PLAN, "submissionId": "t"}, 201)["runId"])
    ledgers.open_attempt(api.service.ledger, run_id)
    api.deliver(run_id, lines())
    writer = apis.WRITER | {"env": {"WANDB_API_KEY": SECRET}}
    snapshot_id = api.save(run_id, 3, line=len(lines()) + 1, writer=writer)
    api.post(
        f"/v1/runs/{run_id}:annotate",
        {"description": f"see {URL}", "labels": {"api_key": SECRET, "where": URL}},
    )
    body = {
        "snapshot": snapshot_id,
        "steps": 5,
        "submissionId": "b",
        "overrides": {"dataset": URL},
        "configName": URL,
        "description": URL,
    }
    api.post(f"/v1/runs/{run_id}:branch", body, 202)
    refusal = told(kind="refused", reason=f"cannot read {URL}")
    api.deliver(run_id, [refusal], first=len(lines()) + 2, exit=apis.EXIT | {"code": 65})
    return run_id


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """U20: plans, branches, annotations, and whatever a worker says, rejected lines too."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        run_id = filled(api)
        record = api.get(f"/v1/runs/{run_id}")
        hparams = api.get(f"/v1/runs/{run_id}/hparams")["hyperparameters"]
        branches = api.get(f"/v1/runs/{run_id}/branches")["branches"]
        (rollout,) = api.get(f"/v1/runs/{run_id}/rollouts")["rollouts"]
        told_by = [api.events(run_id), str(api.get(f"/v1/runs/{run_id}/audit-log"))]
        export = api.client.get("/v1/export", headers=api.token).content
        api.service.publish()

    assert everywhere(tmp_path) == []
    assert SECRET not in str([record, hparams, branches, told_by])
    assert SECRET.encode() not in export
    assert (record["dataset"], record["description"]) == (CLEAN, f"see {CLEAN}")
    assert record["labels"] == {"api_key": "***", "where": CLEAN}
    assert record["failure"]["reason"] == f"cannot read {CLEAN}"
    assert hparams == {"hub_token": "***", "num_memory_tokens": 4, "data": CLEAN}
    assert branches[0]["description"] == CLEAN
    assert rollout["prompt"] == [{"role": "user", "content": f"use {CLEAN}", "api_key": "***"}]
    assert rollout["completion"] == CLEAN


def test_what_is_masked_can_be_sent_again(tmp_path: Path) -> None:
    """S161, C10: the same submission, branch and lines are known by what is kept of them."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        run_id = api.post("/v1/runs", {"plan": PLAN, "submissionId": "t"}, 201)["runId"]
        again = api.post("/v1/runs", {"plan": PLAN, "submissionId": "t"}, 200)
        ledgers.open_attempt(api.service.ledger, run_id)
        first = api.deliver(run_id, lines())
        position = api.service.ledger.position()
        second = api.deliver(run_id, lines())
        stayed = api.service.ledger.position()
        snapshot_id = api.save(run_id, 3, line=len(lines()) + 1)
        body = {"snapshot": snapshot_id, "steps": 5, "submissionId": "b"}
        body |= {"overrides": {"dataset": URL}, "description": URL}
        asked = api.post(f"/v1/runs/{run_id}:branch", body, 202)
        asked_again = api.post(f"/v1/runs/{run_id}:branch", body, 200)

    assert (again["runId"], again["created"]) == (run_id, False)
    assert first["taken"] == second["taken"] == len(lines())
    assert stayed == position
    assert asked_again["childRunId"] == asked["childRunId"]


@pytest.mark.parametrize(
    "command", [["train", "--api-key", SECRET], ["env", f"HF_TOKEN={SECRET}", "train"]]
)
def test_a_command_that_holds_a_secret_is_refused_before_it_is_written(
    tmp_path: Path, command: list[str]
) -> None:
    """U20: with a mask in its place the program would fail, and nobody would know why."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        plan = ledgers.DOCUMENT | {"engine": {"command": command}}
        problem = api.post("/v1/runs", {"plan": plan}, 422)

    place = 3 if len(command[1]) == len("--api-key") else 2
    assert problem["faults"] == [
        f"engine: part {place} of the command is a secret, which would be kept for ever; hand it "
        "to the program in its environment or in a file"
    ]
    assert SECRET not in str(problem)
    assert everywhere(tmp_path) == []
