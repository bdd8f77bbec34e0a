"""Long series over HTTP: in pages, in buckets, and as files of columns."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.routes import metrics
from tests import apis, ledgers
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def step(number: int, terms: Any = None, **measured: Any) -> str:
    said = {"kind": "step", "step": number, "measured": measured}
    return json.dumps(said | ({"rewardTerms": terms} if terms else {}))


@pytest.fixture(scope="module")
def run_id(api: Api) -> str:
    """Four updates, the last two done twice, with numbers of every sort."""
    run_id = api.started()
    lines = [
        step(1, loss=1.0, **{"a b:c__MIN": 0.1, "损失": 5e-324, "step": 7.0}),
        step(2, {"exact": 0.5}, loss="NaN", grad_norm="Infinity"),
        step(3, loss=9.0),
        step(4, loss=9.0),
        '{"kind": "restore", "step": 2}',
        step(3, loss=0.30000000000000004, grad_norm="-Infinity"),
        step(3, **{"a b:c__MIN": 2.0}),
        step(4, grad_norm=1.0),
    ]
    api.deliver(run_id, lines)
    return run_id


def file(api: Api, run_id: str, **parameters: Any) -> bytes:
    path = f"/v1/runs/{run_id}/metrics/file"
    answer = api.client.get(path, params=parameters, headers=api.token)
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


def table(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode())))


def test_a_csv_has_a_row_for_each_step_and_a_column_for_each_number(api: Api, run_id: str) -> None:
    """C35, C40, I20: names and numbers to the letter; absent is empty, not zero."""
    assert table(file(api, run_id, format="csv")) == [
        [
            "step",
            "attempt",
            "loss",
            "grad_norm",
            "a b:c__MIN",
            "measured:step",
            "损失",
            "terms:exact",
        ],
        ["1", "1", "1.0", "", "0.1", "7.0", "5e-324", ""],
        ["2", "1", "NaN", "Infinity", "", "", "", "0.5"],
        ["3", "1", "0.30000000000000004", "-Infinity", "2.0", "", "", ""],
        ["4", "1", "", "1.0", "", "", "", ""],
    ]


def test_a_csv_can_be_of_some_fields_and_steps(api: Api, run_id: str) -> None:
    """I20: own columns; a limit is the last so many steps; what was taken back is marked."""
    some = file(api, run_id, format="csv", fields="loss,terms:exact,nobody's", to=2)
    last = file(api, run_id, format="csv", fields="loss", limit=1)
    everything = file(api, run_id, format="csv", fields="loss", superseded="true")

    names = ["step", "attempt", "loss", "loss,terms:exact,nobody's", "nobody's", "terms:exact"]
    assert table(some)[0] == names
    assert [row[2] for row in table(some)[1:]] == ["1.0", "NaN"]
    assert [row[-1] for row in table(some)[1:]] == ["", "0.5"]
    assert table(last) == [["step", "attempt", "loss"], ["4", "1", ""]]
    assert [(row[0], row[2]) for row in table(everything)[1:]] == [
        ("1", "false"),
        ("2", "false"),
        ("3", "false"),
        ("3", "true"),
        ("4", "false"),
        ("4", "true"),
    ]


def test_a_parquet_file_is_read_by_whatever_reads_parquet(
    api: Api, run_id: str, tmp_path: Path
) -> None:
    """C35: NaN, the infinities and absent stay four things."""
    path = tmp_path / "metrics.parquet"
    path.write_bytes(file(api, run_id, format="parquet"))

    found = duckdb.sql(f"SELECT * FROM '{path}'")

    assert found.columns == table(file(api, run_id, format="csv"))[0]
    rows = found.fetchall()
    assert [row[0] for row in rows] == [1, 2, 3, 4]
    assert [str(row[2]) for row in rows] == ["1.0", "nan", "0.30000000000000004", "None"]
    assert [row[3] for row in rows] == [None, float("inf"), float("-inf"), 1.0]


def test_a_run_without_steps_is_a_file_without_rows(api: Api) -> None:
    """S83: and a run that is not there is none."""
    run_id = ledgers.submit(api.service.ledger)

    assert table(file(api, run_id, format="csv")) == [["step", "attempt"]]
    assert file(api, run_id, format="parquet").startswith(b"PAR1")
    api.get("/v1/runs/0000000000000000/metrics/file", 404, format="csv")
    assert "format" in api.get(f"/v1/runs/{run_id}/metrics/file", 400, format="xls")["detail"]


def test_buckets_are_few_rows_of_a_long_series(api: Api) -> None:
    """U7: reduced where the series is; only the fields that are asked for."""
    run_id = api.started()
    api.deliver(run_id, [step(n, loss=1 / n, grad_norm=float(n)) for n in range(1, 101)])

    def buckets(**parameters: Any) -> Any:
        return api.get(f"/v1/runs/{run_id}/metrics/buckets", **parameters)["buckets"]

    named = buckets(buckets=4, fields="grad_norm")
    assert [(each["from"], each["to"]) for each in named] == [
        (1, 25),
        (26, 50),
        (51, 75),
        (76, 100),
    ]
    assert named[3]["measured"] == {
        "grad_norm": {"min": 76.0, "max": 100.0, "mean": 88.0, "steps": 25, "notFinite": 0}
    }
    (both,) = buckets(buckets=1, **{"from": 2, "to": 3})
    assert sorted(both["measured"]) == ["grad_norm", "loss"]
    assert (both["from"], both["to"], both["measured"]["loss"]["max"]) == (2, 3, 0.5)
    problem = api.get(f"/v1/runs/{run_id}/metrics/buckets", 400, buckets=0)
    assert "buckets" in problem["detail"]


def test_a_long_series_comes_in_pages(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """U7: an answer says where the next begins; nothing is left out, nothing comes twice."""
    monkeypatch.setattr(metrics, "MOST", 3)
    run_id = api.started()
    lines = [
        *(step(n, loss=1 / n) for n in range(1, 6)),
        '{"kind": "validation", "step": 0, "measured": {"loss": 3.0}}',
        '{"kind": "validation", "step": 5, "measured": {"loss": 0.5}}',
        '{"kind": "restore", "step": 2}',
        *(step(n, loss=2 / n) for n in range(3, 9)),
    ]
    api.deliver(run_id, lines)

    def pages(**parameters: Any) -> list[Any]:
        found, after = [], 0
        while after is not None:
            asked = parameters | ({"from": after} if found else {})
            found.append(api.get(f"/v1/runs/{run_id}/metrics", **asked))
            after = found[-1]["next"]
        return found

    def steps(page: Any) -> list[int]:
        return [row["step"] for row in page["steps"]]

    assert [steps(page) for page in pages()] == [[1, 2, 3], [4, 5, 6], [7, 8]]
    taken_back = pages(superseded="true")
    assert [steps(page) for page in taken_back] == [[1, 2, 3, 3], [4, 4, 5, 5, 6], [7, 8]]
    said = [[row["step"] for row in page["validations"]] for page in taken_back]
    assert said == [[0], [5], []]
    assert [steps(page) for page in pages(limit=4)] == [[5, 6, 7], [8]]
    assert [steps(page) for page in pages(to=4)] == [[1, 2, 3], [4]]
