"""Deliveries of runners: taken once, in order, and never lost."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledger import lifecycle
from ledger.events import AttemptClosed, Job, StepReported
from tests import apis, ledgers
from tests.apis import COMPLETED, EXIT, KILLED, RUNNER, Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def steps(api: Api, run_id: str) -> list[int]:
    events = [each.event for each in api.service.ledger.read_run(run_id, 0, 100_000)]
    return [event.step for event in events if isinstance(event, StepReported)]


def test_a_delivery_that_is_sent_again_changes_nothing(api: Api) -> None:
    """U6, C55: an answer may get lost."""
    run_id = api.started()
    lines = ledgers.step_lines(1, 5)

    answers = [api.deliver(run_id, lines) for _ in range(3)]
    overlapping = api.deliver(run_id, ledgers.step_lines(4, 7), first=4)

    assert answers == [{"taken": 5, "request": None, "closed": False}] * 3
    assert overlapping["taken"] == 7
    assert steps(api, run_id) == [1, 2, 3, 4, 5, 6, 7]


def test_a_delivery_that_leaves_lines_out_is_told_where_to_go_on(api: Api) -> None:
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 2))

    problem = api.deliver(run_id, ledgers.step_lines(9, 9), first=9, status=409)

    assert problem["type"] == "/problems/lines-do-not-follow"
    assert problem["taken"] == 2
    assert problem["hint"] == "send again from line 3"
    assert steps(api, run_id) == [1, 2]


def test_a_line_that_says_something_else_than_before_is_refused(api: Api) -> None:
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 2))

    problem = api.deliver(run_id, ledgers.step_lines(2, 2, loss=9.0), first=2, status=409)

    assert "line 2 said something else before" in problem["detail"]


def test_a_runner_may_say_what_time_it_is_and_need_not(api: Api) -> None:
    """One of an earlier version, which outlived its server, does."""
    run_id = api.started()
    lines = ledgers.step_lines(1, 1)

    answer = api.deliver(run_id, lines, runner=RUNNER | {"now": 1_790_000_000.5})

    assert answer == api.deliver(run_id, lines)


def test_an_empty_delivery_is_a_sign_of_life_and_the_start_of_the_job(api: Api) -> None:
    """S42: the first one makes the run PREPARING."""
    run_id = ledgers.submit(api.service.ledger)
    open_without_start(api, run_id)

    assert api.get(f"/v1/runs/{run_id}")["phase"] == "QUEUED"
    assert api.deliver(run_id) == {"taken": 0, "request": None, "closed": False}
    assert api.get(f"/v1/runs/{run_id}")["phase"] == "PREPARING"


def test_a_short_run_is_known_in_full_after_one_delivery(api: Api) -> None:
    """C44: it started, trained and ended before anybody looked."""
    run_id = ledgers.submit(api.service.ledger)
    open_without_start(api, run_id)
    lines = ['{"kind": "training", "totalSteps": 2}', *ledgers.step_lines(1, 2), COMPLETED]

    answer = api.deliver(run_id, lines, exit=EXIT)

    assert answer == {"taken": 4, "request": None, "closed": True}
    record = api.get(f"/v1/runs/{run_id}")
    assert record["phase"] == "COMPLETED"
    assert record["observedStep"] == 2
    assert [visit["phase"] for visit in record["timing"]["visits"]][-3:] == [
        "QUEUED",
        "PREPARING",
        "TRAINING",
    ]
    assert record["attempts"][0]["exitCode"] == 0


def test_the_rank_that_ended_the_others_is_kept_with_the_attempt(api: Api) -> None:
    """I6: a killed rank is retried as a killed worker is."""
    run_id = api.started()

    api.deliver(run_id, [], exit=KILLED | {"rank": 1})

    attempt = api.get(f"/v1/runs/{run_id}")["attempts"][0]
    assert (attempt["code"], attempt["signal"], attempt["rank"]) == ("vanished", 9, 1)


def test_a_rank_that_hung_is_named_and_the_run_goes_on(api: Api) -> None:
    """I6: the runner says that it was given up; the next attempt begins, as after other deaths."""
    run_id = api.started()

    api.deliver(run_id, [], exit=KILLED | {"rank": 1, "hung": True})

    attempt = api.get(f"/v1/runs/{run_id}")["attempts"][0]
    assert (attempt["code"], attempt["rank"]) == ("rank-hung", 1)
    assert attempt["reason"] == "rank 1 of the training job kept the others waiting for too long"
    api.opened_again(run_id)


def test_an_exit_with_the_last_lines_ends_the_run_by_what_they_say(api: Api) -> None:
    """S76: the worker's own refusal is the reason."""
    run_id = api.started()
    reason = "row 3 of rows.jsonl has no messages"
    line = json.dumps({"kind": "refused", "reason": reason})

    api.deliver(run_id, [line], exit=EXIT | {"code": 65})

    failure = api.get(f"/v1/runs/{run_id}")["failure"]
    assert (failure["code"], failure["class"], failure["reason"]) == ("refused", "input", reason)


def test_an_attempt_that_is_closed_hears_so_and_counts_no_more(api: Api) -> None:
    """C55."""
    run_id = api.started()
    api.deliver(run_id, [COMPLETED], exit=EXIT)
    told = api.service.ledger.read_run(run_id, 0, 100)

    late = api.deliver(run_id, ledgers.step_lines(1, 1), first=2)
    again = api.deliver(run_id, [COMPLETED], exit=EXIT | {"code": 1})

    assert late == {"taken": 1, "request": None, "closed": True}
    assert again["closed"] is True
    assert api.service.ledger.read_run(run_id, 0, 100) == told


def test_an_end_at_an_impossible_time_costs_nothing_impossible(api: Api) -> None:
    """U3, C42: the worker's clock may say anything; an end is never later than it was heard of."""
    for at in (0, 253_402_300_799):
        run_id = api.started()
        api.deliver(run_id, [COMPLETED], exit=EXIT | {"at": at})

        record = api.get(f"/v1/runs/{run_id}")

        assert 0 <= record["cost"]["deviceSeconds"] < 60
        assert 0 <= record["timing"]["durationMillis"] < 60_000
        assert isinstance(closing(api, run_id), AttemptClosed)


def closing(api: Api, run_id: str) -> Any:
    return api.service.ledger.read_run(run_id, 0, 100)[-2].event


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "the body is not JSON"),
        (b"", "the body is not JSON"),
        (b"[]", "body: Input should be an object"),
        (b"\xff\xfe", "the body is not JSON"),
        ({"first": 0}, "first: Input should be greater than or equal to 1"),
        ({"lines": None}, "lines: Input should be a valid array"),
        ({"lines": [7]}, "lines.0: Input should be a valid string"),
        ({"line": []}, "line is not known here"),
        ({"runner": None}, "runner: Input should be an object"),
        ({"runner": RUNNER | {"pid": -1}}, "runner.pid: Input should be greater than or equal to"),
        ({"runner": RUNNER | {"startedAt": 1e300}}, "runner.startedAt: Input should be less than"),
        ({"runner": {"host": "here"}}, "runner.pid: Field required"),
        ({"exit": {}}, "exit.code: Field required"),
        ({"exit": EXIT | {"code": 2**70}}, "exit.code: Input should be less than"),
        ({"exit": EXIT | {"signal": -9}}, "exit.signal: Input should be greater than"),
        ({"exit": EXIT | {"at": "yesterday"}}, "exit.at: Input should be a valid number"),
    ],
)
def test_a_delivery_that_is_none_is_refused_by_the_name_of_the_field(
    api: Api, body: dict[str, Any] | bytes, detail: str
) -> None:
    """I26, and nothing of it is taken."""
    run_id = api.started()
    position = api.service.ledger.position()
    whole = {"first": 1, "lines": ledgers.step_lines(1, 1), "runner": RUNNER}

    answer = api.client.post(
        f"/v1/runs/{run_id}/attempts/1/reports",
        content=body if isinstance(body, bytes) else json.dumps(whole | body),
        headers={"Authorization": f"Bearer {api.service.dispatcher.tokens.of(run_id, Job(1))}"},
    )

    problem = apis.strict(answer, 400)
    assert problem["type"] == "/problems/bad-request"
    assert detail in problem["detail"]
    assert "line" not in problem["detail"] or len(problem["detail"]) < 200
    assert api.service.ledger.position() == position


def test_lines_that_are_no_reports_are_taken_as_rejected(api: Api) -> None:
    """Decision 4: nothing that a worker said is lost, and nothing wrong counts."""
    run_id = api.started()
    lines = ["", "{", "\0", "🙂", "[" * 5_000, '{"kind": "step", "step": 1e3}', "x" * 1_100_000]

    answer = api.deliver(run_id, lines)

    assert answer["taken"] == len(lines)
    assert api.get(f"/v1/runs/{run_id}")["attempts"][0]["rejectedLines"] == len(lines)
    assert api.deliver(run_id, lines)["taken"] == len(lines)


def test_a_long_absence_is_made_up_for_in_one_delivery(api: Api) -> None:
    """U6: two thousand lines, two and a half megabytes."""
    run_id = api.started()
    wide = {f"layer {n}/gradient norm": 1.0 for n in range(40)}
    lines = ledgers.step_lines(1, 2_000, **wide)
    assert sum(map(len, lines)) > 2_500_000

    answer = api.deliver(run_id, lines)

    assert answer["taken"] == 2_000
    assert steps(api, run_id) == list(range(1, 2_001))
    last = api.get(f"/v1/runs/{run_id}/metrics", limit=1)["steps"]
    assert last[0]["measured"] == {"loss": 1 / 2_000} | wide


def test_sixteen_workers_at_once_lose_nothing(api: Api) -> None:
    """U6, C55: no line lost, none doubled, no "database is locked"."""
    runs = [api.started() for _ in range(16)]

    def work(run_id: str) -> int:
        taken = 0
        for first in range(1, 101, 10):
            taken = api.deliver(run_id, ledgers.step_lines(first, first + 9), first=first)["taken"]
        return taken

    with ThreadPoolExecutor(16) as workers:
        taken = list(workers.map(work, runs))

    assert taken == [100] * 16
    for run_id in runs:
        assert steps(api, run_id) == list(range(1, 101))
        rows = api.get(f"/v1/runs/{run_id}/metrics")["steps"]
        assert [row["step"] for row in rows] == list(range(1, 101))


@pytest.mark.parametrize("path", ["0000000000000000/attempts/1", "{run}/attempts/2"])
def test_an_attempt_that_does_not_exist_takes_nothing(api: Api, path: str) -> None:
    """Its token can be made only by somebody who has the server's key."""
    run_id = api.started()
    name, _, number = path.format(run=run_id).split("/")
    token = api.service.dispatcher.tokens.of(name, Job(int(number)))

    answer = api.client.post(
        f"/v1/runs/{name}/attempts/{number}/reports",
        json={"first": 1, "lines": [], "runner": RUNNER},
        headers={"Authorization": f"Bearer {token}"},
    )

    if name == run_id:
        assert apis.strict(answer, 200) == {"taken": 0, "request": None, "closed": True}
    else:
        assert apis.strict(answer, 404)["type"] == "/problems/run-not-found"


def open_without_start(api: Api, run_id: str) -> None:
    """Open the first attempt of a run whose job has not been heard of."""
    api.service.ledger.decide(
        run_id,
        lambda state, stamp: lifecycle.open_attempt(
            state, stamp, devices=("cpu:0",), launcher="local", token_sha256="0" * 64
        ),
        principal="dispatch",
    )
