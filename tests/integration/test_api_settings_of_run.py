"""Hyperparameters, engine configuration and annotations over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import apis, ledgers
from tests.answers import ROUTES
from tests.apis import Api

HPARAMS = {"learningRate": 2e-4, "adamBeta1": 0.9}
REQUESTED = {"max_steps": -1, "peft": {"target_modules": "all-linear"}}
RESOLVED = {"max_steps": -1, "adam_beta1": 0.9, "peft": {"target_modules": ["q_proj"]}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def wrote(**hparams: Any) -> list[str]:
    said = {"kind": "engineConfig", "requested": REQUESTED, "resolved": RESOLVED}
    return [json.dumps({"kind": "hparams", "values": HPARAMS | hparams}), json.dumps(said)]


def test_hyperparameters_are_what_the_worker_wrote(api: Api) -> None:
    """S114: defaults included."""
    run_id = api.started()
    api.deliver(run_id, wrote())

    answer = api.get(f"/v1/runs/{run_id}/hparams")

    assert answer["hyperparameters"] == HPARAMS
    assert (answer["runId"], answer["attempt"]) == (run_id, 1)
    assert answer.keys() == ROUTES["read_hparams"].example.keys()


def test_the_same_settings_and_data_have_the_same_hash(api: Api) -> None:
    """I21: whatever the ids, the labels and the way to carry it out."""

    def digest(**fields: Any) -> str:
        run_id = api.started(**fields)
        api.deliver(run_id, wrote())
        return str(api.get(f"/v1/runs/{run_id}/hparams")["configHash"])

    same = digest()
    assert digest(name="two", project="p", execution={"saveEvery": 5}) == same
    assert digest(config={"epochs": 1}) == same
    assert len(same) == 64
    assert digest(dataset="other.jsonl") != same
    assert digest(config={"seed": 1}) != same


def test_the_engines_configuration_is_there_before_the_first_step(api: Api) -> None:
    """S116, S117, S118, S120: requested and resolved."""
    run_id = api.started()
    api.deliver(run_id, wrote())

    answer = api.get(f"/v1/runs/{run_id}/engine-config")

    assert answer == {
        "runId": run_id,
        "attempt": 1,
        "requested": REQUESTED,
        "resolved": RESOLVED,
    }


@pytest.mark.parametrize("part", ["hparams", "engine-config"])
def test_before_the_worker_wrote_them_they_are_not_found(api: Api, part: str) -> None:
    """S115: not empty; the sentence says when to expect them, or that none will come."""
    submitted = ledgers.submit(api.service.ledger)
    training = api.started()
    ended = api.started()
    api.deliver(ended, [apis.COMPLETED], exit=apis.EXIT)

    def absence(run_id: str, **asked: Any) -> Any:
        return api.get(f"/v1/runs/{run_id}/{part}", 404, **asked)

    slugs = {"hparams": "hyperparameters-not-found", "engine-config": "engine-config-not-found"}
    for run_id, phase in ((submitted, "SUBMITTED"), (training, "PREPARING")):
        problem = absence(run_id)
        assert problem["type"] == f"/problems/{slugs[part]}"
        assert f" yet, and is {phase}: its worker writes them shortly after" in problem["detail"]
    assert "its worker ended before it wrote any" in absence(ended)["detail"]
    assert absence("0" * 16)["type"] == "/problems/run-not-found"
    assert absence(training, attempt=2)["type"] == "/problems/attempt-not-found"


def test_each_attempt_has_its_own_and_the_newest_that_wrote_any_is_shown(api: Api) -> None:
    """S113, S115: a second attempt that has just begun takes nothing away."""
    run_id = api.started()
    api.deliver(run_id, [*wrote(adamBeta1=0.5), *ledgers.step_lines(1, 3)])
    api.save(run_id, 3, line=6)
    api.deliver(run_id, first=7, exit=apis.KILLED)
    api.opened_again(run_id)

    first = api.get(f"/v1/runs/{run_id}/hparams")
    absent = api.get(f"/v1/runs/{run_id}/hparams", 404, attempt=2)
    api.deliver(run_id, wrote(), attempt=2)

    assert (first["attempt"], first["hyperparameters"]["adamBeta1"]) == (1, 0.5)
    assert f"attempt 2 of run {run_id} has no hyperparameters yet" in absent["detail"]
    newest = api.get(f"/v1/runs/{run_id}/hparams")
    assert (newest["attempt"], newest["hyperparameters"]["adamBeta1"]) == (2, 0.9)
    assert api.get(f"/v1/runs/{run_id}/hparams", attempt=1)["hyperparameters"]["adamBeta1"] == 0.5


# -- annotations ---------------------------------------------------------------------------------


def test_words_are_put_to_a_run_that_has_ended_and_nothing_else_changes(api: Api) -> None:
    """I23: name, description, labels; ids, phase, time and settings stay."""
    run_id = api.started(name="first try")
    api.deliver(run_id, [*ledgers.step_lines(1, 2), apis.COMPLETED], exit=apis.EXIT)
    before = api.get(f"/v1/runs/{run_id}")
    words = {"description": 'emoji 😀, "quote"\nand line', "labels": {"keep": "yes", "for": "x=y"}}

    answer = api.post(f"/v1/runs/{run_id}:annotate", words)

    assert answer == {"runId": run_id, "name": "first try", **words}
    after = api.get(f"/v1/runs/{run_id}")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"description", "labels", "position"}
    assert '"kind":"runAnnotated"' in api.events(run_id).replace(": ", ":")


def test_what_is_not_stated_stays_and_an_empty_text_takes_a_word_away(api: Api) -> None:
    """I23: one word at a time, while it trains."""
    run_id = api.started(name="first try", description="why")
    path = f"/v1/runs/{run_id}:annotate"

    api.post(path, {"labels": {"a": "1", "b": "2"}})
    api.post(path, {"name": "second try"})
    api.post(path, {"description": "", "labels": {"a": ""}})

    record = api.get(f"/v1/runs/{run_id}")
    assert (record["name"], record["description"]) == ("second try", None)
    assert record["labels"] == {"b": "2"}
    assert record["settings"]["run"]["name"] == "first try"
    assert record["phase"] == "PREPARING"
    (summary,) = [each for each in api.get("/v1/runs")["runs"] if each["runId"] == run_id]
    assert summary["name"] == "second try"


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 409), ({"labels": {"": "x"}}, 400), ({"phase": "FAILED"}, 400), ({"name": 3}, 400)],
)
def test_words_that_say_nothing_are_refused(api: Api, body: dict[str, Any], status: int) -> None:
    """I26."""
    run_id = api.started()

    api.post(f"/v1/runs/{run_id}:annotate", body, status)
    assert api.get(f"/v1/runs/{run_id}")["labels"] == {}


def test_an_annotation_survives_a_rebuild(api: Api) -> None:
    """I23: the live documents are what a replay makes."""
    run_id = api.started()
    api.post(f"/v1/runs/{run_id}:annotate", {"name": "x", "labels": {"a": "b"}})

    verdict = api.post("/v1/audit")

    assert (verdict["ok"], verdict["faults"]) == (True, [])
