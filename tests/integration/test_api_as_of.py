"""What was said at an earlier moment equals what was said then: records, lists and series."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests import apis, ledgers
from tests.apis import Api
from tests.product import eventually

PARTS = (
    *("", "/metrics", "/metrics/buckets", "/metrics/file", "/series"),
    *("/rollouts", "/snapshots", "/branches", "/tree", "/ancestry", "/line"),
)
ASKED: dict[str, dict[str, Any]] = {
    "/metrics/buckets": {"buckets": 3},
    "/metrics/file": {"format": "csv", "superseded": "true"},
}  # what has to be said beside the moment
PRICES = """
[[prices]]
profile = "cpu"
perHour = 3600
currency = "EUR"
from = 2026-01-01
"""


class Seen(NamedTuple):
    """What a server answered at a moment."""

    position: int
    at: datetime
    answers: dict[str, Any]  # by what was asked


class Life(NamedTuple):
    """A run, and what was seen of it while it lived."""

    run_id: str
    training: Seen  # five updates, the newest saved one is 3
    restored: Seen  # it went back to 3 by itself
    again: Seen  # and made three other updates
    ended: Seen


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("home")
    (home / "prices.toml").write_text(PRICES)
    with apis.api(home, devices=("cpu:0",)) as server:
        yield server


def see(api: Api, run_id: str) -> Seen:
    """What is answered now, while nothing is sealed or swept."""
    ledger = api.service.ledger

    def still() -> Seen | None:
        position = ledger.position()
        (newest,) = ledger.read(position - 1, 1)
        seen = Seen(position, newest.event.timestamp, answers(api, run_id))
        return seen if ledger.position() == position else None

    seen = eventually(still, "nothing is stored meanwhile")
    assert seen is not None
    return seen


def answers(api: Api, run_id: str, **asked: Any) -> dict[str, Any]:
    path = f"/v1/runs/{run_id}"
    both = asked | {"superseded": "true"}
    snapshots = api.get(f"{path}/snapshots", **asked)
    (newest,) = snapshots["snapshots"]
    return {
        "record": api.get(path, **asked),
        "list": api.get("/v1/runs", **asked),
        "open": api.get("/v1/runs", phase="open", **asked),
        "newest steps": api.get(f"{path}/metrics", limit=2, **asked),
        "all steps": api.get(f"{path}/metrics", **both),
        "buckets": api.get(f"{path}/metrics/buckets", buckets=2, fields="loss", **asked),
        "series": api.get(f"{path}/series", **asked),
        "line": api.get(f"{path}/line", **asked),
        "snapshots": snapshots,
        "snapshot": api.get(f"/v1/snapshots/{newest['snapshotId'][:12]}", **asked),
        "branches": api.get(f"{path}/branches", **asked),
        "tree": api.get(f"{path}/tree", **asked),
        "ancestry": api.get(f"{path}/ancestry", **asked),
        "file": {"csv": text(api, f"{path}/metrics/file", format="csv", **both)},
    }


def text(api: Api, path: str, **parameters: Any) -> str:
    answer = api.client.get(path, params=parameters, headers=api.token)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.fixture(scope="module")
def life(api: Api) -> Life:
    run_id = api.started(name="first")
    api.deliver(run_id, ledgers.step_lines(1, 5))
    api.save(run_id, 3, line=6)
    training = see(api, run_id)
    api.deliver(run_id, ['{"kind": "restore", "step": 3}'], first=7)
    restored = see(api, run_id)
    api.deliver(run_id, ledgers.step_lines(4, 6, loss=9.0), first=8)
    again = see(api, run_id)
    api.started(name="second")
    (snapshot,) = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    api.post(f"/v1/snapshots/{snapshot['snapshotId']}:pin")
    branch(api, run_id, snapshot["snapshotId"])
    api.post(f"/v1/runs/{run_id}:annotate", {"name": "renamed"})
    api.deliver(run_id, [apis.COMPLETED], first=11, exit=apis.EXIT)
    return Life(run_id, training, restored, again, see(api, run_id))


def branch(api: Api, run_id: str, snapshot_id: str) -> None:
    """A child of a snapshot, once it is there."""
    body = {"snapshot": snapshot_id, "steps": 5, "submissionId": "of-life"}
    api.post(f"/v1/runs/{run_id}:branch", body, 202)
    path = f"/v1/runs/{run_id}/branches"
    eventually(lambda: api.get(path)["branches"][0]["state"] == "created", "the child is there")


def without_moment(answer: Any) -> Any:
    """The answer without what only one of an earlier moment has."""
    return {name: each for name, each in answer.items() if name not in ("asOf", "liveness")}


@pytest.mark.parametrize("name", ["training", "restored", "again", "ended"])
@pytest.mark.parametrize("by", ["position", "time"])
def test_what_is_read_of_an_earlier_moment_is_what_was_read_then(
    api: Api, life: Life, name: str, by: str
) -> None:
    """S21, S86, D6: the record with its bill, lists, series, files; by position and by time."""
    then: Seen = getattr(life, name)

    moment = str(then.position) if by == "position" else then.at.isoformat()
    found = answers(api, life.run_id, asOf=moment)

    said = found["record"]["asOf"]
    assert said["position"] == then.position
    assert timedelta() <= then.at - datetime.fromisoformat(said["at"]) < timedelta(milliseconds=1)
    for what, answer in then.answers.items():
        assert without_moment(found[what]) == without_moment(answer), what


def test_a_restore_that_came_later_takes_nothing_back_yet(api: Api, life: Life) -> None:
    """D5, D6, S26: 5 updates were there; from the restore on 3, of the same run."""
    record = api.get(f"/v1/runs/{life.run_id}", asOf=life.training.position)
    steps = api.get(f"/v1/runs/{life.run_id}/metrics", asOf=life.training.position)["steps"]
    later = api.get(f"/v1/runs/{life.run_id}/metrics", asOf=life.restored.position)["steps"]

    assert (record["observedStep"], record["latest"]["measured"]["loss"]) == (5, 0.2)
    assert [row["measured"]["loss"] for row in steps] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert [row["step"] for row in later] == [1, 2, 3]


def test_the_bill_of_an_attempt_that_was_open_is_an_estimate_again(api: Api, life: Life) -> None:
    """S22, S22b, U4: the time up to the last line of then, at 1 EUR a second; now it is final."""
    then = api.get(f"/v1/runs/{life.run_id}", asOf=life.again.position)
    ended = api.get(f"/v1/runs/{life.run_id}")

    assert (then["phase"], then["cost"]["estimate"]) == ("TRAINING", True)
    assert then["cost"]["deviceSeconds"] == then["timing"]["split"]["trainingMillis"] / 1000
    assert then["cost"]["money"]["amount"] == then["cost"]["deviceSeconds"]
    assert then["cost"]["money"]["estimate"] is True
    assert (ended["phase"], ended["cost"]["estimate"]) == ("COMPLETED", False)
    assert then["timing"]["endedAt"] is None


def test_whether_a_silent_attempt_was_alive_is_not_known_any_more(api: Api, life: Life) -> None:
    """U3: of beats nothing is kept; the ledger knows the last line, and the clock is of then."""
    record = api.get(f"/v1/runs/{life.run_id}", asOf=life.again.position)

    liveness, at = record["liveness"], datetime.fromisoformat(record["asOf"]["at"])

    silent = at - datetime.fromisoformat(liveness["lastSignAt"])
    assert liveness["verdict"] == "unknown"
    assert liveness["silentSeconds"] == max(0.0, silent.total_seconds())
    assert api.get(f"/v1/runs/{life.run_id}", asOf=life.ended.position)["liveness"] == {
        "verdict": "ended"
    }


@pytest.mark.parametrize("part", PARTS)
def test_a_run_that_did_not_exist_then_is_not_found(api: Api, life: Life, part: str) -> None:
    """I26: the sentence says since when it does."""
    record = api.get(f"/v1/runs/{life.run_id}")
    submitted = api.service.documents.row(life.run_id)
    assert submitted is not None
    earlier = submitted.submitted - 1
    path = f"/v1/runs/{life.run_id}{part}"

    problem = api.get(path, 404, asOf=max(earlier, 1), **ASKED.get(part, {}))

    assert problem["type"] == "/problems/run-not-found"
    assert problem["detail"].endswith(
        f"it was submitted at {record['submittedAt']}, position {submitted.submitted}"
    )
    assert problem["hint"] == f"ask for position {submitted.submitted} or a later one"


def test_a_pin_and_a_branch_that_came_later_are_not_there_yet(api: Api, life: Life) -> None:
    """I7, I10, I12, I13: nobody holds the same snapshot, and the name is that of then."""

    def read(part: str, **asked: Any) -> Any:
        return api.get(f"/v1/runs/{life.run_id}{part}", **asked)

    then, token = {"asOf": life.again.position}, {"submission": "of-life"}
    (before,), (now,) = (read("/snapshots", **each)["snapshots"] for each in (then, {}))
    child = read("/branches")["branches"][0]["childRunId"]
    problem = api.get(f"/v1/runs/{life.run_id}/branches", 404, **then, **token)
    ended = {"asOf": life.ended.position}

    assert (now["pinned"], now["heldBy"]) == (True, [child])
    assert before | {"pinned": True, "heldBy": [child]} == now
    assert read("/branches", **then)["branches"] == []
    assert [each["name"] for each in read("/tree", **then)["runs"]] == ["first"]
    assert [each["name"] for each in read("/tree")["runs"]] == ["renamed", "first"]
    assert read("/branches", **ended, **token)["branches"] == read("/branches")["branches"]
    assert problem["type"] == "/problems/submission-not-found"
    assert problem["detail"] == (
        f"as of position {life.again.position}, no branch of run {life.run_id} was submitted with "
        "token 'of-life'"
    )


def test_a_snapshot_that_was_committed_later_is_not_found(api: Api, life: Life) -> None:
    """I7: and the sentence says when it was."""
    (snapshot,) = api.get(f"/v1/runs/{life.run_id}/snapshots")["snapshots"]
    row = api.service.documents.row(life.run_id)
    assert row is not None

    problem = api.get(f"/v1/snapshots/{snapshot['snapshotId']}", 404, asOf=row.submitted)

    assert problem["type"] == "/problems/snapshot-not-found"
    assert problem["detail"].startswith(f"snapshot {snapshot['snapshotId'][:12]} did not exist as ")
    assert problem["detail"].endswith(f"it was committed at {snapshot['committedAt']}")


@pytest.mark.parametrize("part", ["/events", "/logs", "/receipt", "/audit-log", "/hparams"])
def test_what_has_no_earlier_moment_says_so(api: Api, life: Life, part: str) -> None:
    """docs/audit.md, As of: nothing answers of now what was asked of then."""
    problem = api.get(f"/v1/runs/{life.run_id}{part}", 400, asOf=life.again.position)

    assert problem["detail"] == "asOf is not known here"
    assert problem["hint"].startswith("this is read as it is now; docs/audit.md has what can be")


def test_a_list_has_only_the_runs_of_then(api: Api, life: Life) -> None:
    before = api.get("/v1/runs", asOf="2020-01-01")
    then = api.get("/v1/runs", asOf=life.training.position)

    assert before == {
        "runs": [],
        "next": None,
        "asOf": {"position": 0, "at": "2020-01-01T00:00:00.000Z"},
    }
    assert [row["name"] for row in then["runs"]] == ["first"]
    assert api.get("/v1/runs", asOf=life.training.position, phase="COMPLETED")["runs"] == []
    assert [row["name"] for row in api.get("/v1/runs")["runs"]] == ["first", "second", "renamed"]


@pytest.mark.parametrize("part", ["", "/metrics"])
@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z is in the future"),
        ("99999", "position 99999 is beyond the end of the ledger, which is at {end}"),
        ("0", "there is no event at position 0"),
        ("yesterday", "'yesterday' is neither a position nor a time"),
        ("-1", "'-1' is neither a position nor a time"),
    ],
)
def test_a_moment_that_is_none_of_the_past_is_refused(
    api: Api, life: Life, part: str, moment: str, sentence: str
) -> None:
    """I26: one sentence, and what to do."""
    problem = api.get(f"/v1/runs/{life.run_id}{part}", 400, asOf=moment)

    assert problem["type"] == "/problems/bad-request"
    assert problem["detail"].startswith(sentence.format(end=api.service.ledger.position()))


@pytest.mark.parametrize("part", ["", "/metrics", "/metrics/file"])
def test_an_attempt_that_was_not_opened_yet_is_not_found(api: Api, part: str) -> None:
    """I6, U8: the second attempt is there now, and was not then."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 2))
    then = api.service.ledger.position()
    api.deliver(run_id, first=3, exit=apis.KILLED)
    api.opened_again(run_id)
    path, asked = f"/v1/runs/{run_id}{part}", ASKED.get(part, {}) | {"attempt": 2}

    problem = api.get(path, 404, asOf=then, **asked)

    assert problem["type"] == "/problems/attempt-not-found"
    assert problem["detail"] == (f"as of position {then}, run {run_id} has no attempt 2; it has 1")
    assert text(api, path, **asked)


def test_a_query_reads_rows_as_of_a_position_as_well(api: Api, life: Life) -> None:
    """U1: docs/sql.md, what the views are made of: 5 steps were current, then 3 of them."""
    api.post("/v1/sql:publish")

    def current(position: int) -> Any:
        query = (
            f"SELECT count(*) AS steps FROM metrics_all_until({position})"
            f" WHERE run_id = '{life.run_id}' AND NOT superseded"
        )
        return api.post("/v1/sql", {"query": query})["rows"]

    assert current(life.training.position) == [{"steps": 5}]
    assert current(life.restored.position) == [{"steps": 3}]
    assert current(life.ended.position) == [{"steps": 6}]


def test_the_line_of_a_branch_is_that_of_then(api: Api, life: Life) -> None:
    """I13: what its parent made by then is not taken from it by what came later."""
    (asked,) = api.get(f"/v1/runs/{life.run_id}/branches")["branches"]
    child = asked["childRunId"]

    def read(**at: int) -> tuple[list[int], list[float]]:
        said = api.get(f"/v1/runs/{child}/line", **at)
        return said["step"], said["value"]

    before = api.service.ledger.position()
    ledgers.open_attempt(api.service.ledger, child)
    api.deliver(child, ledgers.step_lines(1, 2, loss=7.0))

    assert read(asOf=before) == ([1, 2, 3], [1.0, 0.5, 1 / 3])
    assert read() == ([1, 2, 3, 4, 5], [1.0, 0.5, 1 / 3, 7.0, 7.0])
