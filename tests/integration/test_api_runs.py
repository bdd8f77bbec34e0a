"""Runs over HTTP: submit, list, read, cancel."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.events import Job
from tests import apis, ledgers
from tests.apis import Api

PLAN = ledgers.DOCUMENT


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as server:
        yield server


def test_a_plan_becomes_a_run(api: Api) -> None:
    """I1, S83: what the answer names can be read at once."""
    made = api.post("/v1/runs", {"plan": PLAN | {"name": "first try"}}, 201)

    record = api.get(f"/v1/runs/{made['runId']}")
    assert made == {
        "runId": record["runId"],
        "submissionId": record["submissionId"],
        "created": True,
        "phase": "SUBMITTED",
        "position": record["position"],
    }
    assert (record["name"], record["phase"]) == ("first try", "SUBMITTED")
    assert record["liveness"] == {"verdict": "none"}


def test_the_same_plan_twice_is_two_runs(api: Api) -> None:
    """I1."""
    ids = {api.post("/v1/runs", {"plan": PLAN}, 201)["runId"] for _ in range(2)}

    assert len(ids) == 2


def test_a_submission_that_is_sent_again_is_the_same_run(api: Api) -> None:
    """I1, D14: after a lost answer, and after a restart of the server."""
    body = {"plan": PLAN, "submissionId": "night-7"}
    made = api.post("/v1/runs", body, 201)

    again = api.post("/v1/runs", {"plan": dict(reversed(PLAN.items())), **body}, 200)

    assert (again["runId"], again["created"]) == (made["runId"], False)
    assert again["submissionId"] == "night-7"
    assert api.service.ledger.position() == made["position"]


def test_a_submission_token_is_not_good_for_another_plan(api: Api) -> None:
    made = api.post("/v1/runs", {"plan": PLAN, "submissionId": "t"}, 201)

    problem = api.post("/v1/runs", {"plan": PLAN | {"name": "x"}, "submissionId": "t"}, 409)

    assert problem["type"] == "/problems/submission-token-reused"
    assert made["runId"] in problem["detail"]
    assert api.service.ledger.position() == made["position"]


def test_a_token_with_odd_characters_is_refused(api: Api) -> None:
    problem = api.post("/v1/runs", {"plan": PLAN, "submissionId": "../x"}, 400)

    assert "1 to 100 letters" in problem["detail"]


def test_every_fault_of_a_plan_is_a_sentence_of_its_own(api: Api) -> None:
    """I1: unknown fields are refused by name; nothing is created."""
    position = api.service.ledger.position()
    plan = {"baseModel": "m", "datset": "d", "config": {"seed": -1}, "execution": {"devices": 9}}

    problem = api.post("/v1/runs", {"plan": plan}, 422)

    assert problem["type"] == "/problems/plan-refused"
    assert problem["faults"] == [
        "dataset is missing",
        "config.seed is -1: input should be greater than or equal to 0",
        "datset is not a field of a plan",
    ]
    assert problem["detail"] == "; ".join(problem["faults"])
    assert api.service.ledger.position() == position


def test_a_plan_for_more_devices_than_there_are_is_refused(api: Api) -> None:
    plan = PLAN | {"engine": {"command": ["train"]}, "execution": {"devices": 2}}

    problem = api.post("/v1/runs", {"plan": plan}, 422)

    assert problem["faults"] == ["execution.devices is 2, and this server has 1"]


def test_a_server_for_others_runs_no_program_of_theirs(tmp_path: Path) -> None:
    """design.md, embedded default: unless its settings allow it."""
    body = {"plan": PLAN | {"engine": {"command": ["train"]}}}

    with apis.api(tmp_path / "a", devices=("cpu:0",), host="0.0.0.0") as api:
        problem = api.post("/v1/runs", body, 422)
    allowing: dict[str, Any] = {"host": "0.0.0.0", "allow_command_engine": True}
    with apis.api(tmp_path / "b", devices=("cpu:0",), **allowing) as api:
        made = api.post("/v1/runs", body, 201)

    assert problem["faults"] == ["engine.command is not allowed on a server that others can reach"]
    assert made["created"] is True


def test_a_dry_run_answers_the_resolved_plan_and_changes_nothing(api: Api) -> None:
    """I1: --dry-run, --show-resolved."""
    position = api.service.ledger.position()

    answer = api.post("/v1/runs", {"plan": PLAN | {"config": {"seed": 7}}}, dryRun="true")

    assert answer["stated"] == ["baseModel", "config.seed", "dataset", "engine"]
    assert answer["resolved"]["config"]["seed"] == 7
    assert answer["resolved"]["config"]["learningRate"] == 2e-4
    api.post("/v1/runs", {"plan": {}}, 422, dryRun="true")
    assert api.service.ledger.position() == position


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "the body is not JSON"),
        (b"", "body: Field required"),
        (b"[]", "body: Input should be"),
        (b"\xff", "There was an error parsing the body"),
        (b"{}", "plan: Field required"),
        (b'{"plan": {}, "submisionId": "t"}', "submisionId is not known here"),
        (b'{"plan": {}, "submissionId": 7}', "submissionId: Input should be a valid string"),
        (b'{"plan": ' + b"[" * 99_999 + b"]" * 99_999 + b"}", "error parsing the body"),
    ],
)
def test_a_body_that_is_no_submission_is_refused_by_name(
    api: Api, body: bytes, detail: str
) -> None:
    """I26."""
    headers = api.token | {"Content-Type": "application/json"}

    answer = api.client.post("/v1/runs", content=body, headers=headers)

    problem = apis.strict(answer, 400)
    assert problem["type"] == "/problems/bad-request"
    assert detail in problem["detail"]


def test_half_a_character_in_a_plan_is_a_fault_and_no_failure(api: Api) -> None:
    """C40: JSON can say a lone surrogate, and no database can hold it."""
    for plan in ('{"name": "\\ud800"}', '{"\\ud800": 1}', '{"config": {"\\udfff": 1}}'):
        headers = api.token | {"Content-Type": "application/json"}
        answer = api.client.post("/v1/runs", content=f'{{"plan": {plan}}}', headers=headers)

        assert apis.strict(answer, 422)["type"] == "/problems/plan-refused"


def test_names_are_kept_whatever_they_hold(api: Api) -> None:
    """C40: emoji, quotes, line breaks, ten thousand characters."""
    description = '🙂 "quoted"\n' + "ß" * 9_980
    made = api.post("/v1/runs", {"plan": PLAN | {"description": description}}, 201)

    assert api.get(f"/v1/runs/{made['runId']}")["description"] == description


def test_runs_are_listed_newest_first_and_by_pages(api: Api) -> None:
    """I2."""
    ids = [ledgers.submit(api.service.ledger, project="pages") for _ in range(5)]

    pages = [api.get("/v1/runs", limit=2, project="pages")]
    while (before := pages[-1]["next"]) is not None:
        pages.append(api.get("/v1/runs", limit=2, project="pages", before=before))

    listed = [run["runId"] for page in pages for run in page["runs"]]
    assert listed == ids[::-1]
    assert [len(page["runs"]) for page in pages] == [2, 2, 1]


def test_a_page_does_not_move_when_runs_are_added(api: Api) -> None:
    """I2."""
    ids = [ledgers.submit(api.service.ledger, project="more") for _ in range(3)]
    first = api.get("/v1/runs", limit=2, project="more")

    ledgers.submit(api.service.ledger, project="more")

    second = api.get("/v1/runs", limit=2, project="more", before=first["next"])
    assert [run["runId"] for run in second["runs"]] == ids[:1]


def test_runs_are_listed_by_phase_and_project(api: Api) -> None:
    """I2: ``open`` is whatever has not ended."""
    before = {run["runId"] for run in api.get("/v1/runs", limit=500)["runs"]}
    ledger = api.service.ledger
    waiting = ledgers.submit(ledger, project="a")
    training = api.started(project="b")
    ledger.record(training, Job(1), first=1, lines=ledgers.step_lines(1, 1))
    done = api.started(project="b")
    ledgers.close(ledger, done)

    def listed(**parameters: Any) -> list[str]:
        runs = api.get("/v1/runs", limit=500, **parameters)["runs"]
        return [run["runId"] for run in runs if run["runId"] not in before]

    assert listed() == [done, training, waiting]
    assert listed(phase="open") == [training, waiting]
    assert listed(phase="TRAINING") == [training]
    assert listed(phase=["completed", "submitted"]) == [done, waiting]
    assert listed(phase="open", project="b") == [training]
    assert listed(project="c") == []


@pytest.mark.parametrize(
    ("parameters", "detail"),
    [
        ({"phase": "RUNNING"}, "'RUNNING' is no phase"),
        ({"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ({"limit": 501}, "limit: Input should be less than or equal to 500"),
        ({"before": 10**30}, "before: Input should be less than"),
        ({"before": "x"}, "before: Input should be a valid integer"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_by_a_sentence(
    api: Api, parameters: dict[str, Any], detail: str
) -> None:
    """I26."""
    problem = api.get("/v1/runs", 400, **parameters)

    assert detail in problem["detail"]


def test_a_run_is_found_by_the_beginning_of_its_id(api: Api) -> None:
    """design.md, HTTP: any unambiguous prefix of 4 or more."""
    run_id = ledgers.submit(api.service.ledger)

    for length in (4, 8, 16):
        assert api.get(f"/v1/runs/{run_id[:length]}")["runId"] == run_id
        assert api.get(f"/v1/runs/{run_id[:length]}/metrics")["runId"] == run_id


@pytest.mark.parametrize(
    "name", ["0000000000000000", "abc", "ABCDEF0123456789", "0123456789abcdef0", "%2e%2e", "a%00bc"]
)
def test_what_is_no_run_is_not_found(api: Api, name: str) -> None:
    """I26."""
    problem = api.get(f"/v1/runs/{name}", 404)

    is_short = (
        "an id is named by 4 of its first digits at least; " if name in ("abc", "%2e%2e") else ""
    )
    assert problem["type"] == "/problems/run-not-found"
    assert problem["hint"] == f"{is_short}trainledger runs list shows the runs there are"


def test_a_beginning_that_several_runs_share_names_them(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md, HTTP: problem ambiguous-id, with the candidates."""
    ids = ["fade000000000001", "fade000000000002", "fadf000000000003"]
    for run_id in ids:
        monkeypatch.setattr("secrets.token_hex", lambda _, run_id=run_id: run_id)
        ledgers.submit(api.service.ledger)
    api.service.catch_up("documents", api.service.ledger.position())

    problem = api.get("/v1/runs/fade", 409)

    assert problem["type"] == "/problems/ambiguous-id"
    assert problem["candidates"] == ids[:2]
    assert api.get("/v1/runs/fadf")["runId"] == ids[2]


def test_a_run_that_holds_nothing_is_cancelled_at_once(api: Api) -> None:
    """I3."""
    run_id = ledgers.submit(api.service.ledger)

    assert api.post(f"/v1/runs/{run_id}:cancel", status=202) == {
        "runId": run_id,
        "phase": "CANCELLED",
    }
    problem = api.post(f"/v1/runs/{run_id}:cancel", status=409)
    assert problem["type"] == "/problems/run-has-ended"
    assert api.get(f"/v1/runs/{run_id}")["phase"] == "CANCELLED"


def test_a_run_at_work_is_asked_to_stop_however_often(api: Api) -> None:
    """I3: accepted when it is asked for, and CANCELLED when its job has stopped."""
    run_id = api.started()

    answers = [api.post(f"/v1/runs/{run_id[:6]}:cancel", status=202) for _ in range(2)]
    heard = api.deliver(run_id)
    api.deliver(run_id, exit=apis.EXIT | {"code": 143})

    assert answers == [{"runId": run_id, "phase": "CANCELLING"}] * 2
    assert heard == {"taken": 0, "request": "stop", "closed": False}
    assert api.get(f"/v1/runs/{run_id}")["phase"] == "CANCELLED"
    kinds = [apis.loads(line)["kind"] for line in api.events(run_id).splitlines()]
    assert kinds.count("cancelRequested") == 1
    api.post("/v1/runs/0000000000000000:cancel", status=404)


def test_a_run_whose_document_is_not_yet_made_is_not_called_absent(tmp_path: Path) -> None:
    """U3: a projection that stands still is no reason to deny a run; the submission counts."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        api.service.followers["documents"].stop()

        made = api.post("/v1/runs", {"plan": PLAN, "submissionId": "t"}, 201)
        problem = api.get(f"/v1/runs/{made['runId']}", 503)

    assert made["phase"] == "SUBMITTED"
    assert problem["type"] == "/problems/not-ready"
