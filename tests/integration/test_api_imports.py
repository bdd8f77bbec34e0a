"""Imports over HTTP: lines that are wrong, lines that come again, and what asks for them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import apis
from tests.apis import Api

SOURCE = {"kind": "source", "source": "other-tracker", "file": "runs.db", "sha256": "ab" * 32}
STEP = {"kind": "step", "step": 1, "measured": {"loss": 2.0}}
VALIDATION = {"kind": "validation", "step": 1, "measured": {"eval_loss": 2.5}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def imported(api: Api, *lines: Any, status: int = 201, **parameters: Any) -> Any:
    body = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    answer = api.client.post("/v1/runs:import", content=body, params=parameters, headers=api.token)
    return apis.strict(answer, status)


def test_lines_of_any_tracker_become_a_run_once(api: Api) -> None:
    """C34: the token is the digest of the file, or one of the asker's own."""
    first = imported(api, SOURCE, STEP, VALIDATION)
    again = imported(api, SOURCE | {"file": "copy.db"}, STEP, VALIDATION, status=200)
    other = imported(api, SOURCE, STEP, submissionId="other")

    assert first == {
        "runId": first["runId"],
        "submissionId": f"import-{'ab' * 32}",
        "created": True,
        "phase": "COMPLETED",
        "position": 11,
        "steps": 1,
        "validations": 1,
    }
    assert again == first | {"created": False, "position": again["position"]}
    assert other["runId"] != first["runId"]
    record = api.get(f"/v1/runs/{first['runId']}")
    assert (record["imported"]["source"], record["imported"]["file"]) == (
        "other-tracker",
        "runs.db",
    )


WRONG = {
    "nothing": ([""], "line 1: the line is not JSON: ''"),
    "no source": ([STEP], "the first line of a history is of kind source, this one is a step"),
    "two sources": ([SOURCE, SOURCE], "line 2 is of kind source, as only the first may be"),
    "no row": ([SOURCE], "runs.db has no update and no validation: there is no history"),
    "no name": ([SOURCE, STEP | {"measured": {"loss": "two"}}], "line 2: measured: loss is 'two'"),
    "unknown": ([SOURCE, {"kind": "model", "path": "x"}], "line 2: the kind 'model' is unknown"),
    "twice": ([SOURCE, STEP, STEP], "line 3: step 1 came after 1"),
    "back": ([SOURCE, VALIDATION | {"step": 2}, VALIDATION], "line 3: step 1 came after 2"),
    "time": ([SOURCE, STEP | {"at": 1.0}, VALIDATION], "line 3 has no at, unlike the lines before"),
    "length": (
        [SOURCE | {"trainingSeconds": "Infinity"}, STEP],
        "line 1: trainingSeconds: Input should be a valid number",
    ),
    "digest": ([SOURCE | {"sha256": "ab"}, STEP], "line 1: sha256: String should match pattern"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_history_with_a_wrong_line_is_refused_whole(api: Api, name: str) -> None:
    """C34: the sentence has the number of the line, and nothing is stored."""
    lines, sentence = WRONG[name]
    before = api.service.ledger.position()

    problem = imported(api, *lines, status=400, submissionId=f"wrong-{name.replace(' ', '-')}")

    assert problem["detail"].startswith(sentence)
    assert api.service.ledger.position() == before


def test_what_made_a_branch_or_another_run_makes_no_import(api: Api) -> None:
    """D7: a token names one thing."""
    imported(api, SOURCE, STEP, submissionId="taken")

    problem = imported(api, SOURCE, STEP | {"step": 2}, status=409, submissionId="taken")

    assert problem["detail"].startswith("runs.db was imported as run ")
    assert "with other options, or its content was read in another way" in problem["detail"]


def test_an_imported_run_takes_part_in_nothing(api: Api) -> None:
    """S102: it has ended, holds no snapshot and cannot be paused."""
    run_id = imported(api, SOURCE, STEP, submissionId="ended")["runId"]

    refused = api.post(f"/v1/runs/{run_id}:cancel", status=409)

    assert refused["type"].endswith("run-has-ended")
    assert run_id not in api.service.ledger.open_runs()
    assert api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"] == []
