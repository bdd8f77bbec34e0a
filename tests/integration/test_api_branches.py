"""Branches over HTTP: asked for once, prepared where all can see it, and who came from whom."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import api.service
from tests import apis, ledgers
from tests.apis import Api
from tests.product import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server whose branches are prepared when a test says so."""
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as made:
        made.service.brancher.rounds.stop()
        yield made


def saved(server: Api, *steps: int, **fields: Any) -> tuple[str, list[str]]:
    """A run that saved these updates, and the ids of its snapshots."""
    run_id = server.started(config={"maxSteps": 100, "seed": 3}, **fields)
    return run_id, save(server, run_id, *steps)


def save(server: Api, run_id: str, *steps: int) -> list[str]:
    """The ids of snapshots of these updates, which a run makes now."""
    line, ids = 1, []
    for before, step in zip((0, *steps), steps, strict=False):
        server.deliver(run_id, ledgers.step_lines(before + 1, step), first=line)
        line += step - before
        ids.append(server.save(run_id, step, line=line))
        line += 1
    return ids


def ask(server: Api, run_id: str, snapshot: str, status: int = 202, **more: Any) -> Any:
    """What the server answers to a branch of 5 updates."""
    body = {"snapshot": snapshot, "steps": 5} | more
    return server.post(f"/v1/runs/{run_id}:branch", body, status)


def child_of(server: Api, run_id: str, snapshot: str, **more: Any) -> str:
    """The id of a child that is created, and at work."""
    child: str = ask(server, run_id, snapshot, **more)["childRunId"]
    server.service.brancher.work()
    ledgers.open_attempt(server.service.ledger, child)
    return child


def listed(server: Api, run_id: str, **parameters: Any) -> list[dict[str, Any]]:
    """The branches of a run."""
    rows: list[dict[str, Any]] = server.get(f"/v1/runs/{run_id}/branches", **parameters)["branches"]
    return rows


def state(server: Api, run_id: str, token: str) -> str:
    """How far the branch is that a token asked for."""
    (branch,) = listed(server, run_id, submission=token)
    said: str = branch["state"]
    return said


# -- asking ----------------------------------------------------------------------------------------


def test_a_branch_is_durable_when_it_is_answered_and_prepared_after_that(server: Api) -> None:
    """S136, S156, S157: each state can be seen, and only then there is a child."""
    run_id, (source,) = saved(server, 20)

    answer = ask(server, run_id[:6], source[:12], submissionId="mine", restore="trainingState")

    child = answer["childRunId"]
    assert answer == {
        "submissionId": "mine",
        "state": "requested",
        "refusal": None,
        "childRunId": child,
        "parentRunId": run_id,
        "origin": {
            "parent": run_id,
            "snapshotId": source,
            "step": 20,
            "restore": "trainingState",
        },
        "steps": 5,
        "position": server.service.ledger.position(),
    }
    server.get(f"/v1/runs/{child}", 404)
    server.service.branches.hold("mine")
    assert state(server, run_id, "mine") == "preparing"
    server.service.brancher.work()
    assert state(server, run_id, "mine") == "created"
    assert server.get(f"/v1/runs/{child}")["phase"] == "SUBMITTED"


def test_a_child_says_what_it_came_from_and_counts_from_zero(server: Api) -> None:
    """S28, S138, S141, S146, S147, S163: in its record and in its stream."""
    run_id, (source,) = saved(server, 20, project="triage")
    labels = {"configName": "lower rate", "description": "half of it"}
    changes = {"config": {"learningRate": 0.5}}

    child = child_of(server, run_id, source, overrides=changes, **labels)

    record = server.get(f"/v1/runs/{child}")
    origin = {"parent": run_id, "snapshotId": source, "step": 20, "restore": "weights"}
    assert record["origin"] == origin
    assert (record["project"], record["name"]) == ("triage", "lower rate")
    assert record["description"] == "half of it"
    assert (record["observedStep"], record["savedStep"]) == (0, None)
    assert record["progress"] == {"completed": 0, "total": 5, "share": 0.0, "lastLoss": None}
    configuration = record["settings"]["configuration"]
    assert (configuration["learningRate"], configuration["seed"]) == (0.5, 3)
    assert (configuration["epochs"], configuration["maxSteps"]) == (None, 5)
    assert record["stated"] == ["config.learningRate", "config.maxSteps", "description", "name"]
    submitted = apis.loads(server.events(child).splitlines()[0])
    assert (submitted["kind"], submitted["origin"]) == ("runSubmitted", origin)


def test_the_record_of_the_parent_is_the_same_bytes_before_and_after(server: Api) -> None:
    """S137, C22: its stream too, while its child trains."""
    run_id, (source,) = saved(server, 20)
    path = f"/v1/runs/{run_id}"
    before = server.client.get(path, headers=server.token).content, server.events(run_id)

    child = child_of(server, run_id, source)
    server.deliver(child, ledgers.step_lines(1, 5))

    after = server.client.get(path, headers=server.token).content, server.events(run_id)
    assert strip_silence(after[0]) == strip_silence(before[0])
    assert after[1] == before[1]
    assert server.get(f"/v1/runs/{child}")["observedStep"] == 5


def strip_silence(record: bytes) -> dict[str, Any]:
    """A record without what goes on with the clock while nothing happens."""
    said: dict[str, Any] = apis.loads(record.decode())
    clocks = ("timing", "liveness", "cost", "attempts")
    return {name: each for name, each in said.items() if name not in clocks}


def test_one_token_is_one_child_and_no_token_is_another_one_each_time(server: Api) -> None:
    """S160, S161, C54: also where many ask at once; the status says whether it is new."""
    run_id, (source,) = saved(server, 20)
    body = {"snapshot": source, "steps": 5, "submissionId": "one"}

    def post(_: int) -> tuple[int, str]:
        path = f"/v1/runs/{run_id}:branch"
        answer = server.client.post(path, json=body, headers=server.token)
        return answer.status_code, answer.json()["childRunId"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(16)))
    server.service.brancher.work()
    again = ask(server, run_id, source[:9], 200, submissionId="one")

    assert len({child for _, child in answers}) == 1
    assert sorted(status for status, _ in answers) == [200] * 15 + [202]
    assert (again["childRunId"], again["state"]) == (answers[0][1], "created")
    others = {ask(server, run_id, source)["childRunId"] for _ in range(2)}
    assert len(others | {again["childRunId"]}) == 3


def test_a_token_that_asked_for_something_else_is_refused_and_the_answer_says_for_what(
    server: Api,
) -> None:
    """S161, C54, D14: other updates, another run, or a plan; nothing is stored."""
    run_id, (source,) = saved(server, 20)
    other, (theirs,) = saved(server, 20)
    ask(server, run_id, source, submissionId="taken")
    server.post("/v1/runs", {"plan": ledgers.DOCUMENT, "submissionId": "of-a-plan"}, 201)
    position = server.service.ledger.position()

    problem = ask(server, run_id, source, 409, submissionId="taken", steps=6)
    ask(server, other, theirs, 409, submissionId="taken")
    ask(server, run_id, source, 409, submissionId="of-a-plan")

    assert problem["type"] == "/problems/submission-token-reused"
    assert "asked for another branch, of 5 updates from snapshot" in problem["detail"]
    assert server.service.ledger.position() == position


def test_a_submission_is_answered_again_although_its_source_is_gone(server: Api) -> None:
    """S161: what a token reached it reaches for good; only a new branch needs the snapshot."""
    run_id, (first, _) = saved(server, 10, 20, execution={"keepTrainingState": 1, "keepWeights": 1})
    ask(server, run_id, first, 409, submissionId="late")
    run_id, (first,) = saved(server, 10, execution={"keepTrainingState": 1, "keepWeights": 1})
    before = ask(server, run_id, first, submissionId="early")
    server.deliver(run_id, ledgers.step_lines(11, 20), first=12)
    server.save(run_id, 20, line=22)
    ask(server, run_id, first, 409)

    server.service.brancher.work()

    again = ask(server, run_id, first, 200, submissionId="early")
    assert again["childRunId"] == before["childRunId"]
    assert again["state"] == "refused"
    assert again["refusal"]["reason"]


# -- a preview -------------------------------------------------------------------------------------


def test_a_preview_shows_the_child_and_stores_nothing(server: Api) -> None:
    """S154, S155: equal positions before and after, and it says that nothing is reserved."""
    run_id, (source,) = saved(server, 20)
    before = server.service.ledger.position()
    body = {"snapshot": source[:8], "steps": 7, "overrides": {"config": {"learningRate": 0.5}}}

    preview = server.post(f"/v1/runs/{run_id}:branch", body, dryRun="true")

    assert preview["position"] == before == server.service.ledger.position()
    assert preview["resolved"]["config"]["learningRate"] == 0.5
    assert preview["resolved"]["config"]["maxSteps"] == 7
    assert preview["stated"] == ["config.learningRate", "config.maxSteps"]
    assert (preview["origin"]["snapshotId"], preview["origin"]["step"]) == (source, 20)
    assert "reserves nothing" in preview["note"]
    assert listed(server, run_id) == []
    (snapshot,) = server.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    assert snapshot["heldBy"] == []


def test_a_preview_with_a_token_has_the_verdict_of_a_submission_with_it(server: Api) -> None:
    """S154, S161: what was asked for before is shown, what was not is refused."""
    run_id, (source,) = saved(server, 20)
    ask(server, run_id, source, submissionId="seen")
    body = {"snapshot": source, "steps": 5, "submissionId": "seen"}
    path, position = f"/v1/runs/{run_id}:branch", server.service.ledger.position()

    preview = server.post(path, body, dryRun="true")
    server.post(path, body | {"steps": 6}, 409, dryRun="true")
    server.post(path, body | {"submissionId": "no token"}, 400, dryRun="true")

    assert preview["resolved"]["config"]["maxSteps"] == 5
    assert server.service.ledger.position() == position


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_what_is_no_committed_snapshot_of_the_run_is_refused_with_those_that_are(
    server: Api, dry_run: str
) -> None:
    """S136, C23: 41 where 20 and 40 are, another run's, none; a preview has the same verdict."""
    run_id, ids = saved(server, 20, 40)
    _, (theirs,) = saved(server, 30)
    position = server.service.ledger.position()

    for wrong in ("41", theirs, "", "f" * 64):
        body = {"snapshot": wrong, "steps": 5}
        problem = server.post(f"/v1/runs/{run_id}:branch", body, 404, dryRun=dry_run)
        assert problem["type"] == "/problems/snapshot-not-found"
        assert all(
            f"{each} (step {n})" in problem["detail"] for each, n in zip(ids, (20, 40), strict=True)
        )

    assert server.service.ledger.position() == position


def test_the_beginning_of_two_ids_is_refused_with_both(server: Api) -> None:
    """S140, C23: as many are saved as it takes for two that begin with the same letter."""
    shared: set[str] = set()
    updates = 0
    while not shared:
        updates += 20
        run_id, ids = saved(server, *range(1, updates + 1))
        firsts = [each[0] for each in ids]
        shared = {each for each in firsts if each.isalpha() and firsts.count(each) > 1}
    hits = [each for each in ids if each.startswith(min(shared))]
    position = server.service.ledger.position()

    problem = ask(server, run_id, min(shared), 409)

    assert problem["type"] == "/problems/ambiguous-id"
    assert problem["candidates"] == sorted(hits)
    assert server.service.ledger.position() == position


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"overrides": {"config": {"maxSteps": 9}}}, "config.maxSteps cannot be overridden"),
        ({"overrides": {"config": {"epochs": 1}}}, "config.epochs cannot be overridden"),
        ({"overrides": {"config": {"lerningRate": 1}}}, "config.lerningRate is not a field"),
        ({"overrides": {"baseModel": "tiny"}}, "baseModel cannot be overridden"),
        (
            {"restore": "trainingState", "overrides": {"config": {"seed": 3}}},
            "config.seed cannot be overridden with --restore trainingState",
        ),
        ({"steps": 0}, "--steps is 0"),
    ],
)
def test_an_override_that_may_not_be_is_refused_by_name(
    server: Api, more: dict[str, Any], fault: str
) -> None:
    """S142, S148, S150, C22: each fault in a sentence."""
    run_id, (source,) = saved(server, 20)
    position = server.service.ledger.position()

    problem = ask(server, run_id, source, 422, **more)

    assert problem["type"] == "/problems/plan-refused"
    assert problem["faults"][0].startswith(fault)
    assert server.service.ledger.position() == position


def test_a_child_that_this_server_cannot_carry_out_is_refused(server: Api) -> None:
    """S146: it needs as many devices as its parent."""
    engine = {"command": ["train"]}
    run_id, (source,) = saved(server, 20, execution={"devices": 2}, engine=engine)

    problem = ask(server, run_id, source, 422)

    assert problem["faults"] == ["execution.devices is 2, and this server has 1"]


@pytest.mark.parametrize(
    "more",
    [
        {"restore": "everything"},
        {"steps": "5"},
        {"steps": 2**63},
        {"overrides": []},
        {"surprise": 1},
        {"submissionId": ""},
    ],
)
def test_a_request_that_cannot_be_understood_is_400(server: Api, more: dict[str, Any]) -> None:
    run_id, (source,) = saved(server, 20)

    ask(server, run_id, source, 400, **more)


def test_a_source_that_is_damaged_refuses_the_branch_and_is_not_held(server: Api) -> None:
    """S157, S159: the submission was durable; the preparation says why there is no child."""
    run_id, (source,) = saved(server, 20)
    folder = server.service.settings.home / "snapshots" / run_id / source
    (weights,) = folder.rglob("adapter_model.safetensors")
    weights.write_bytes(b"something else")
    ask(server, run_id, source, submissionId="damaged")

    server.service.brancher.work()

    (branch,) = listed(server, run_id, submission="damaged")
    assert branch["state"] == "refused"
    assert "adapter_model.safetensors" in branch["refusal"]["reason"]
    assert branch["refusal"]["advice"] == "branch from another snapshot"
    server.get(f"/v1/runs/{branch['childRunId']}", 404)
    (snapshot,) = server.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    assert (snapshot["heldBy"], snapshot["status"]) == ([], "damaged")


# -- reading ---------------------------------------------------------------------------------------


def test_a_source_names_the_child_that_holds_it_until_that_has_ended(server: Api) -> None:
    """I7, I10, C26."""
    run_id, (source,) = saved(server, 20)
    child = child_of(server, run_id, source)

    def holders() -> list[str]:
        (snapshot,) = server.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
        held: list[str] = snapshot["heldBy"]
        return held

    assert holders() == [child]
    server.deliver(child, [apis.COMPLETED], exit=apis.EXIT)
    server.service.brancher.work()

    assert holders() == []


def test_branches_are_listed_newest_first_a_page_at_a_time(server: Api) -> None:
    """I12: 50 unless more are asked for, and never more than 100."""
    run_id, (source,) = saved(server, 20)
    children = [ask(server, run_id, source)["childRunId"] for _ in range(7)]
    path = f"/v1/runs/{run_id}/branches"

    pages = [server.get(path, limit=3)]
    while pages[-1]["next"] is not None:
        pages.append(server.get(path, limit=3, before=pages[-1]["next"]))

    assert [len(page["branches"]) for page in pages] == [3, 3, 1]
    found = [each["childRunId"] for page in pages for each in page["branches"]]
    assert found == children[::-1]
    assert server.get(path, limit=7)["next"] is None
    server.get(path, 400, limit=101)
    server.get(path, 400, limit=0)


def test_a_submission_is_read_back_before_the_list_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S162, C54: before, between and after; and it is the row that the list has later."""
    monkeypatch.setattr(api.service, "CATCH_UP_SECONDS", 0.0)
    with apis.api(tmp_path, devices=("cpu:0",)) as server:
        server.service.brancher.rounds.stop()
        run_id, (source,) = saved(server, 20)
        eventually(lambda: server.service.documents.find(run_id), "the run can be read")
        before = server.get(f"/v1/runs/{run_id}/branches", 404, submission="mine")
        server.service.followers["documents"].stop()
        ask(server, run_id, source, submissionId="mine", configName="a", description="b")

        (between,) = listed(server, run_id, submission="mine")
        unlisted = listed(server, run_id)
        recorded = server.service.ledger.read(server.service.documents.position(), 100)
        server.service.documents.apply(recorded)
        (after,) = listed(server, run_id, submission="mine")

        assert before["type"] == "/problems/submission-not-found"
        assert (between["state"], between["position"], unlisted) == ("requested", None, [])
        assert listed(server, run_id) == [after]
        assert after | {"position": None} == between


def test_a_token_of_something_else_is_none_of_this_run(server: Api) -> None:
    """S162, C54: of another run's branch, or of a plan."""
    run_id, (source,) = saved(server, 20)
    other, _ = saved(server, 20)
    ask(server, run_id, source, submissionId="here")
    server.post("/v1/runs", {"plan": ledgers.DOCUMENT, "submissionId": "a-plan"}, 201)

    problem = server.get(f"/v1/runs/{other}/branches", 404, submission="here")
    server.get(f"/v1/runs/{run_id}/branches", 404, submission="a-plan")

    assert f"asked for a branch of run {run_id}, not of {other}" in problem["detail"]


def test_tree_and_ancestry_have_every_generation(server: Api) -> None:
    """I13: from whichever run of the tree; a branch of a branch is one."""
    root, (source,) = saved(server, 20)
    first = child_of(server, root, source)
    (theirs,) = save(server, first, 3)
    grandchild = child_of(server, first, theirs, restore="trainingState", steps=9)
    second = child_of(server, root, source)

    tree = server.get(f"/v1/runs/{grandchild}/tree")
    ancestry = server.get(f"/v1/runs/{grandchild}/ancestry")

    assert tree["runId"] == grandchild
    order = [(each["generation"], each["runId"]) for each in tree["runs"]]
    assert order == [(0, root), (1, first), (2, grandchild), (1, second)]
    assert tree["runs"] == server.get(f"/v1/runs/{root}/tree")["runs"]
    assert [each["runId"] for each in ancestry["runs"]] == [root, first, grandchild]
    began = [(each["snapshotId"], each["step"], each["steps"]) for each in ancestry["runs"]]
    assert began == [(None, None, None), (source, 20, 5), (theirs, 3, 9)]
    assert ancestry["runs"][2]["restore"] == "trainingState"


def test_a_tree_may_be_deeper_than_json(server: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """I13: a chain of a thousand branches is a list, not a thousand brackets."""
    facts = {"name": None, "phase": "COMPLETED", "origin": None, "steps": None}
    deep: dict[str, Any] = {"runId": "leaf", **facts, "children": []}
    for n in range(1_000):
        deep = {"runId": f"{n}", **facts, "children": [deep]}
    monkeypatch.setattr(server.service.documents, "tree", lambda _, __: deep)
    run_id = server.started()

    runs = server.get(f"/v1/runs/{run_id}/tree")["runs"]

    assert (runs[-1]["runId"], runs[-1]["generation"]) == ("leaf", 1_000)


def test_the_line_of_a_branch_is_its_parent_up_to_the_source_and_then_itself(server: Api) -> None:
    """S137: what the parent did later is not of it."""
    run_id, (source, _) = saved(server, 3, 5)
    child = child_of(server, run_id, source)
    server.deliver(child, ledgers.step_lines(1, 2, loss=0.125))

    said = server.get(f"/v1/runs/{child}/line")
    alone = server.get(f"/v1/runs/{run_id}/line", field="loss")

    assert said == {
        "runId": child,
        "field": "loss",
        "runs": [{"runId": run_id, "before": 0}, {"runId": child, "before": 3}],
        "step": [1, 2, 3, 4, 5],
        "value": [1.0, 1 / 2, 1 / 3, 0.125, 0.125],
    }
    assert alone["step"] == [1, 2, 3, 4, 5]


def test_what_is_asked_of_no_run_is_not_found(server: Api) -> None:
    for rest in ("branches", "tree", "ancestry", "line"):
        server.get(f"/v1/runs/0000000000000000/{rest}", 404)
    problem = ask(server, "0000000000000000", "x", 404)
    assert problem["type"] == "/problems/run-not-found"
