"""Series over HTTP: current or superseded, whole or in part, and every number as it was said."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import apis, ledgers
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def step(number: int, **measured: Any) -> str:
    return json.dumps({"kind": "step", "step": number, "measured": measured})


@pytest.fixture(scope="module")
def run_id(api: Api) -> str:
    """Five updates, of which the last two were done twice, and two validations."""
    run_id = api.started()
    lines = [
        *(step(n, loss=1 / n, grad_norm=2.0, **{"actor/kl": 0.5}) for n in range(1, 6)),
        '{"kind": "restore", "step": 3}',
        step(4, loss=0.1),
        '{"kind": "validation", "step": 4, "measured": {"loss": 0.7}}',
        '{"kind": "step", "step": 5, "measured": {"loss": 0.2}, "rewardTerms": {"length": 1.0}}',
        '{"kind": "validation", "step": 5, "dataset": "held out", "measured": {"loss": 0.6}}',
    ]
    api.deliver(run_id, lines)
    return run_id


def test_metrics_may_be_ahead_of_the_record_and_are_never_behind_it(api: Api) -> None:
    """S45: the series does not wait for the record, and whoever has read that finds its steps."""
    run_id = api.started()
    path = f"/v1/runs/{run_id}"
    api.deliver(run_id, [step(1, loss=2.0)])
    assert api.get(path)["observedStep"] == 1

    with api.service.documents._applying:  # as while a record is still being made
        api.deliver(run_id, [step(2, loss=1.0)], first=2)
        ahead = api.get(f"{path}/metrics")
        behind = api.service.documents.get(run_id) or {}

    assert [row["step"] for row in ahead["steps"]] == [1, 2]
    assert behind["observedStep"] == 1
    assert api.get(path)["observedStep"] == 2
    assert [row["step"] for row in api.get(f"{path}/metrics")["steps"]] == [1, 2]


def test_the_metrics_of_a_run_are_its_current_steps(api: Api, run_id: str) -> None:
    """S83: what the engine logged for each step, as soon as it was taken."""
    answer = api.get(f"/v1/runs/{run_id}/metrics")

    first = {"loss": 1.0, "grad_norm": 2.0, "actor/kl": 0.5}
    assert answer["runId"] == run_id
    assert answer["position"] == api.service.ledger.position()
    assert [row["step"] for row in answer["steps"]] == [1, 2, 3, 4, 5]
    assert answer["steps"][0] == {"step": 1, "attempt": 1, "measured": first}
    assert answer["steps"][3] == {"step": 4, "attempt": 1, "measured": {"loss": 0.1}}
    assert answer["steps"][4] == {
        "step": 5,
        "attempt": 1,
        "measured": {"loss": 0.2},
        "rewardTerms": {"length": 1.0},
    }
    assert answer["validations"] == [
        {"step": 4, "attempt": 1, "dataset": None, "measured": {"loss": 0.7}},
        {"step": 5, "attempt": 1, "dataset": "held out", "measured": {"loss": 0.6}},
    ]


def test_what_a_restore_took_back_is_still_readable(api: Api, run_id: str) -> None:
    rows = api.get(f"/v1/runs/{run_id}/metrics", superseded="true")["steps"]

    assert [(row["step"], row.get("superseded", False)) for row in rows] == [
        (1, False),
        (2, False),
        (3, False),
        (4, True),
        (4, False),
        (5, True),
        (5, False),
    ]
    assert [row["measured"]["loss"] for row in rows[3:]] == [0.25, 0.1, 0.2, 0.2]
    first, second = rows[3]["supersededBy"], rows[5]["supersededBy"]
    assert first == second
    assert first.keys() == {"attempt", "step", "position", "at"}
    assert (first["attempt"], first["step"]) == (1, 3)
    assert [row for row in rows if "supersededBy" in row] == [rows[3], rows[5]]


def test_an_attempt_is_read_whole_with_what_was_taken_back(api: Api) -> None:
    """U1, D5: updates and validations of one attempt; what took them back is named."""
    run_id = api.started()
    lines = [*ledgers.step_lines(1, 5), '{"kind": "validation", "step": 5, "measured": {"a": 1}}']
    api.deliver(run_id, lines)
    api.save(run_id, 3, line=7)
    api.deliver(run_id, first=8, exit=apis.KILLED)
    api.opened_again(run_id)
    api.deliver(run_id, ledgers.step_lines(4, 6, loss=9.0), attempt=2)

    def of(**parameters: Any) -> Any:
        answer = api.get(f"/v1/runs/{run_id}/metrics", **parameters)
        rows = [(row["step"], row["attempt"], row.get("superseded")) for row in answer["steps"]]
        return rows, answer["validations"]

    first, (validation,) = of(attempt=1)
    second, nothing = of(attempt=2)
    current, _ = of()
    assert first == [(1, 1, None), (2, 1, None), (3, 1, None), (4, 1, True), (5, 1, True)]
    assert (validation["superseded"], validation["supersededBy"]["attempt"]) == (True, 2)
    assert second == [(4, 2, None), (5, 2, None), (6, 2, None)]
    assert nothing == []
    assert current == first[:3] + second
    assert of(attempt=1, limit=1)[0] == first[-1:]
    problem = api.get(f"/v1/runs/{run_id}/metrics", 404, attempt=3)
    assert problem["type"] == "/problems/attempt-not-found"


@pytest.mark.parametrize(
    ("parameters", "steps"),
    [
        ({"from": 2, "to": 3}, [2, 3]),
        ({"from": 4}, [4, 5]),
        ({"to": 2}, [1, 2]),
        ({"limit": 2}, [4, 5]),
        ({"limit": 2, "to": 4}, [3, 4]),
        ({"limit": 99}, [1, 2, 3, 4, 5]),
        ({"from": 6}, []),
        ({"from": 6, "limit": 3}, []),
        ({"from": 3, "to": 2}, []),
        ({"to": 2**63 - 1}, [1, 2, 3, 4, 5]),
    ],
)
def test_a_part_of_a_series_is_read_by_its_steps(
    api: Api, run_id: str, parameters: dict[str, int], steps: list[int]
) -> None:
    """S83: ``limit`` is the last so many steps."""
    answer = api.get(f"/v1/runs/{run_id}/metrics", **parameters)

    assert [row["step"] for row in answer["steps"]] == steps


def test_only_the_fields_that_are_asked_for_come(api: Api, run_id: str) -> None:
    rows = api.get(f"/v1/runs/{run_id}/metrics", fields="actor/kl,loss", to=4)["steps"]

    assert [sorted(row["measured"]) for row in rows] == [["actor/kl", "loss"]] * 3 + [["loss"]]


def test_a_name_with_a_comma_is_asked_for_like_any_other(api: Api) -> None:
    """C40, I20: names may be given one by one, or several with commas between."""
    run_id = api.started()
    api.deliver(run_id, [step(1, **{"a,b": 1.0, "c": 2.0, "d": 3.0, "e": 4.0})])

    def names(*fields: str) -> list[str]:
        (row,) = api.get(f"/v1/runs/{run_id}/metrics", fields=list(fields))["steps"]
        return sorted(row["measured"])

    assert names("a,b") == ["a,b"]
    assert names("c,d") == ["c", "d"]
    assert names("c, d") == ["c", "d"]
    assert names("c", "a,b") == ["a,b", "c"]
    assert names("c,d", "e") == ["c", "d", "e"]
    assert names("") == ["a,b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("parameters", "detail"),
    [
        ({"field": "loss"}, "field is not known here"),
        ({"attempt": 0}, "attempt: Input should be greater than or equal to 1"),
        ({"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ({"from": -1}, "from: Input should be greater than or equal to 0"),
        ({"to": 10**30}, "to: Input should be less than or equal to"),
        ({"limit": 10**30}, "limit: Input should be less than or equal to"),
        ({"superseded": "perhaps"}, "superseded: Input should be a valid boolean"),
    ],
)
def test_a_name_or_number_that_is_wrong_is_named(
    api: Api, run_id: str, parameters: dict[str, Any], detail: str
) -> None:
    """I26."""
    assert detail in api.get(f"/v1/runs/{run_id}/metrics", 400, **parameters)["detail"]


def test_numbers_that_are_not_finite_stay_what_they_are(api: Api) -> None:
    """U11, C35: NaN, the infinities and absent are four things; five rows stay five."""
    run_id = api.started()
    lines = [
        step(1, loss=1.5, grad_norm=1.0),
        step(2, loss=float("nan"), grad_norm=1.0),
        step(3, loss=0.5, grad_norm="Infinity", other=float("-inf")),
        step(4, grad_norm=1.0),
        step(5, loss=-0.0, grad_norm=5e-324),
    ]
    api.deliver(run_id, lines)

    rows = api.get(f"/v1/runs/{run_id}/metrics")["steps"]

    assert [row["measured"].get("loss", "absent") for row in rows] == [
        1.5,
        "NaN",
        0.5,
        "absent",
        -0.0,
    ]
    assert rows[2]["measured"] == {"loss": 0.5, "grad_norm": "Infinity", "other": "-Infinity"}
    assert rows[4]["measured"]["grad_norm"] == 5e-324
    assert api.get(f"/v1/runs/{run_id}/series") == {
        "runId": run_id,
        "field": "loss",
        "step": [1, 2, 3, 5],
        "value": [1.5, "NaN", 0.5, -0.0],
    }
    assert api.get(f"/v1/runs/{run_id}/series", field="other")["value"] == ["-Infinity"]
    record = api.get(f"/v1/runs/{run_id}")
    assert record["results"]["trainingLoss"]["notFinite"] == 1


def test_a_series_is_two_columns(api: Api, run_id: str) -> None:
    answer = api.get(f"/v1/runs/{run_id}/series", field="loss")

    assert answer["step"] == [1, 2, 3, 4, 5]
    assert answer["value"] == [1.0, 0.5, 1 / 3, 0.1, 0.2]
    nobody = api.get(f"/v1/runs/{run_id}/series", field="nobody's")
    assert (nobody["step"], nobody["value"]) == ([], [])


@pytest.mark.parametrize(
    "name", ["a b:c__MIN", "损失", "p%/[x]", "a?b=c&d#e", "", "quote\"'", "zero\0byte", "x" * 999]
)
def test_names_of_numbers_are_kept_to_the_letter(api: Api, name: str) -> None:
    """C40."""
    run_id = api.started()
    api.deliver(run_id, [step(1, **{name: 2.329497814178467})])

    (row,) = api.get(f"/v1/runs/{run_id}/metrics")["steps"]
    series = api.get(f"/v1/runs/{run_id}/series", field=name)

    assert row["measured"] == {name: 2.329497814178467}
    assert (series["field"], series["value"]) == (name, [2.329497814178467])


def test_a_run_without_steps_has_an_empty_series(api: Api) -> None:
    run_id = ledgers.submit(api.service.ledger)

    answer = api.get(f"/v1/runs/{run_id}/metrics", limit=5)

    assert (answer["steps"], answer["validations"]) == ([], [])
    assert api.get(f"/v1/runs/{run_id}/series")["value"] == []
    api.get("/v1/runs/0000000000000000/metrics", 404)
    api.get("/v1/runs/0000000000000000/series", 404)


def test_metrics_are_there_after_the_server_starts_again(tmp_path: Path) -> None:
    with apis.api(tmp_path) as api:
        run_id = api.started()
        api.deliver(run_id, [*ledgers.step_lines(1, 9), apis.COMPLETED], exit=apis.EXIT)
    with apis.api(tmp_path) as api:
        answer = api.get(f"/v1/runs/{run_id}/metrics")

    assert [row["step"] for row in answer["steps"]] == list(range(1, 10))
