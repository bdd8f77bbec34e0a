"""Comparing runs over HTTP: what is compared, what is refused and why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import apis
from tests.answers import ROUTES
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0", "cpu:1")) as server:
        yield server


def trained(api: Api, losses: list[Any], *, spike: int | None = None, **fields: Any) -> str:
    """A run with these losses, whose gradient norm is 1 but at one step."""
    run_id = api.started(**fields)
    steps = [
        {"loss": loss, "grad_norm": 25.0 if step == spike else 1.0}
        for step, loss in enumerate(losses, start=1)
    ]
    api.deliver(
        run_id,
        [
            json.dumps({"kind": "step", "step": step, "measured": measured})
            for step, measured in enumerate(steps, start=1)
        ],
    )
    return run_id


def compared(api: Api, run_id: str, baseline: str, status: int = 200, **asked: Any) -> Any:
    return api.get(f"/v1/runs/{run_id}/compare", status, baseline=baseline, **asked)


def test_a_run_is_compared_with_a_baseline_window_by_window(api: Api) -> None:
    """S94 to S103, D9: with the defaults of the product."""
    baseline = trained(api, [1.5] * 25, spike=3)
    run_id = trained(api, [1.5] * 10 + [1.53] * 10 + [1.25] * 3, spike=12)

    answer = compared(api, run_id, baseline[:8])

    assert (answer["runId"], answer["baselineId"]) == (run_id, baseline)
    assert answer["position"] == api.service.ledger.position()
    assert [answer[name] for name in ("window", "margin", "spikeFactor")] == [10, 0.03, 10.0]
    assert [(w["firstStep"], w["lastStep"], w["difference"]) for w in answer["windows"]] == [
        (1, 10, 0.0),
        (11, 20, 0.03),
        (21, 23, -0.25),
    ]
    assert answer["reported"] is None
    assert answer["steps"]["missingInRun"] == {"count": 2, "first": 24, "last": 25}
    assert answer["spikes"] == [
        {"step": 3, "run": None, "baseline": 25.0},
        {"step": 12, "run": 25.0, "baseline": None},
    ]
    assert (answer["differences"], answer["division"]) == ([], None)
    assert "nondeterministic" in answer["reminder"]
    assert answer.keys() == ROUTES["compare_runs"].example.keys()
    assert answer["windows"][0].keys() == ROUTES["compare_runs"].example["reported"].keys()


def test_window_margin_and_spike_factor_are_chosen(api: Api) -> None:
    """S100 to S102."""
    run_id, baseline = trained(api, [1.0, 1.5, 2.0], spike=2), trained(api, [1.0, 1.25, 1.0])

    answer = compared(api, run_id, baseline, window=1, margin=0.25, spikeFactor=30)

    assert answer["reported"]["firstStep"] == 3
    assert answer["spikes"] == []
    assert compared(api, run_id, baseline, margin=0.1)["reported"] is None


def test_only_current_steps_are_compared(api: Api) -> None:
    """S86, D9: what a restore took back is not."""
    baseline, run_id = trained(api, [1.0, 2.0, 3.0]), trained(api, [1.0, 9.0, 9.0])
    lines = ['{"kind": "restore", "step": 1}']
    lines += ['{"kind": "step", "step": 2, "measured": {"loss": 2.0}}']
    api.deliver(run_id, lines, first=4)

    answer = compared(api, run_id, baseline, window=2)

    assert answer["windows"][0]["difference"] == 0.0
    assert answer["steps"]["missingInRun"] == {"count": 1, "first": 3, "last": 3}


def test_plans_that_differ_are_refused_with_their_differences(api: Api) -> None:
    """S104, S105, S106: field, here, in the baseline; and compared across plans all the same."""
    baseline = trained(api, [1.0] * 10)
    run_id = trained(api, [2.0] * 10, config={"seed": 1, "lora": {"rank": 8}}, dataset="other")

    problem = compared(api, run_id, baseline, 409)
    across = compared(api, run_id, baseline, acrossPlans="true")

    assert problem["type"] == "/problems/not-comparable"
    assert problem["differences"] == [
        {"field": "dataset", "run": "other", "baseline": "rows.jsonl"},
        {"field": "config.seed", "run": 1, "baseline": 0},
        {"field": "config.lora.rank", "run": 8, "baseline": 16},
    ]
    assert problem["faults"][1] == "config.seed: 1 here, 0 in the baseline"
    assert "--across-plans" in problem["hint"]
    assert across["differences"] == problem["differences"]
    assert across["reported"]["difference"] == 1.0


def test_runs_that_divide_an_update_in_two_ways_are_compared(api: Api) -> None:
    """S107: the same rows, over other devices and passes."""
    command = {"command": ["train"]}
    one = trained(api, [1.0], engine=command, execution={"microBatchSequences": 4})
    two = trained(api, [1.0], engine=command, execution={"devices": 2, "microBatchSequences": 2})

    answer = compared(api, one, two)

    assert answer["differences"] == []
    assert answer["division"] == {
        "run": {"devices": 1, "microBatchSequences": 4, "accumulation": 4},
        "baseline": {"devices": 2, "microBatchSequences": 2, "accumulation": 4},
    }


def test_a_reinforcement_run_is_refused_on_either_side(api: Api) -> None:
    """S94: it records a reward."""
    supervised = trained(api, [1.0])
    reinforced = trained(api, [1.0], method="GRPO", engine={"command": ["train"]})

    for pair in ((supervised, reinforced), (reinforced, supervised)):
        problem = compared(api, *pair, 409, acrossPlans="true")
        assert reinforced in problem["detail"]
        assert "a reward at each step instead of a training loss" in problem["detail"]


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ({"window": 0}, "window: "),
        ({"margin": -1}, "margin: "),
        ({"margin": "NaN"}, "margin: "),
        ({"spikeFactor": 0}, "spikeFactor: "),
        ({"spike_factor": 3}, "spike_factor is not known here"),
    ],
)
def test_a_limit_that_cannot_be_is_named(api: Api, asked: dict[str, Any], detail: str) -> None:
    """I26."""
    run_id = trained(api, [1.0])

    assert compared(api, run_id, run_id, 400, **asked)["detail"].startswith(detail)


def test_a_run_that_is_not_there_is_not_found(api: Api) -> None:
    """D8: on either side."""
    run_id = trained(api, [1.0])

    assert compared(api, "0" * 16, run_id, 404)["type"] == "/problems/run-not-found"
    assert compared(api, run_id, "0" * 16, 404)["type"] == "/problems/run-not-found"
