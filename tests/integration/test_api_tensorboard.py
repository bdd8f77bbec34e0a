"""Event files over HTTP: as of now, and then only what is new."""

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from api.problems import TENSORBOARD_MISSING
from tests import apis, archives, event_files, ledgers
from tests.apis import Api

UNKNOWN = "0123456789abcdef"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as server:
        server.service.brancher.rounds.stop()
        yield server


class Answer(NamedTuple):
    position: int
    is_over: bool
    names: list[str]


def unpack(api: Api, run_id: str, folder: Path, **parameters: int) -> Answer:
    """Unpack an answer, as ``curl … | tar x`` does."""
    path = f"/v1/runs/{run_id}/tensorboard"
    answer = api.client.get(path, params=parameters, headers=api.token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-tar"
    archives.unpack(answer.content, folder)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    said = answer.headers
    return Answer(int(said["trainledger-position"]), said["trainledger-over"] == "true", names)


def validated(step: int, loss: float) -> str:
    return json.dumps({"kind": "validation", "step": step, "measured": {"eval_loss": loss}})


def test_the_files_of_a_run_are_there_while_it_trains(api: Api, tmp_path: Path) -> None:
    """S121: in a folder with the name of the run, and each answer's after those before."""
    run_id = api.started()
    api.deliver(run_id, ['{"kind": "training"}', *ledgers.step_lines(1, 2)])

    first = unpack(api, run_id[:6], tmp_path)
    found = event_files.curves(tmp_path / run_id)
    api.deliver(run_id, [*ledgers.step_lines(3, 3), validated(3, 0.5)], first=4)
    second = unpack(api, run_id, tmp_path, after=first.position)
    third = unpack(api, run_id, tmp_path, after=second.position)

    assert found == {"train/loss": [(1, 1.0), (2, 0.5)]}
    assert event_files.curves(tmp_path / run_id) == {
        "train/loss": [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))],
        "eval/loss": [(3, 0.5)],
    }
    assert (len(first.names), len(second.names), third.names) == (1, 1, [])
    assert first.names + second.names == sorted(first.names + second.names)
    assert not first.is_over
    assert second.position == third.position == api.service.ledger.position()


def test_a_run_that_has_ended_says_that_nothing_will_follow(api: Api, tmp_path: Path) -> None:
    run_id = api.started()
    before = unpack(api, run_id, tmp_path)
    api.deliver(run_id, [*ledgers.step_lines(1, 2), apis.COMPLETED], exit=apis.EXIT)

    after = unpack(api, run_id, tmp_path, after=before.position)

    assert (before.is_over, after.is_over) == (False, True)
    assert event_files.curves(tmp_path / run_id) == {"train/loss": [(1, 1.0), (2, 0.5)]}
    assert event_files.status(tmp_path / run_id) == 1


def test_a_lost_attempt_is_purged_and_can_still_be_had_by_itself(api: Api, tmp_path: Path) -> None:
    """D5, I6: the second attempt begins again, since nothing was saved."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 3), exit=apis.KILLED)
    api.opened_again(run_id)
    api.deliver(run_id, ledgers.step_lines(1, 1, loss=8.0), attempt=2)

    whole = unpack(api, run_id, tmp_path / "run")
    first = unpack(api, run_id, tmp_path / "attempts", attempt=1)
    second = unpack(api, run_id, tmp_path / "attempts", attempt=2)

    assert event_files.curves(tmp_path / "run" / run_id) == {"train/loss": [(1, 8.0)]}
    attempts = tmp_path / "attempts" / run_id
    assert [step for step, _ in event_files.curves(attempts / "a1")["train/loss"]] == [1, 2, 3]
    assert event_files.curves(attempts / "a2") == {"train/loss": [(1, 8.0)]}
    assert (whole.is_over, first.is_over, second.is_over) == (False, True, False)


def test_a_branch_of_training_state_counts_from_zero_and_its_curves_do_not(
    api: Api, tmp_path: Path
) -> None:
    """S124: both numbers."""
    parent = api.started(config={"maxSteps": 100})
    api.deliver(parent, ledgers.step_lines(1, 20))
    source = api.save(parent, 20, line=21)
    asked = {"snapshot": source, "steps": 5, "restore": "trainingState"}
    child = api.post(f"/v1/runs/{parent}:branch", asked, 202)["childRunId"]
    api.service.brancher.work()
    ledgers.open_attempt(api.service.ledger, child)
    steps = [
        {"kind": "step", "step": n, "measured": {"loss": 1 / n, "engine_step": 20 + n}}
        for n in (1, 2)
    ]
    api.deliver(child, [*map(json.dumps, steps), validated(2, 0.25)])

    unpack(api, child, tmp_path)

    record = api.get(f"/v1/runs/{child}")
    assert (record["observedStep"], record["latest"]["step"]) == (2, 2)
    assert event_files.curves(tmp_path / child) == {
        "train/loss": [(21, 1.0), (22, 0.5)],
        "eval/loss": [(22, 0.25)],
    }
    unpack(api, parent, tmp_path)
    assert event_files.curves(tmp_path / parent)["train/loss"][-1][0] == 20


def test_a_long_run_comes_in_several_files(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is, the server holds a page of it at a time."""
    monkeypatch.setattr("projections.source.PAGE", 10)
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 50))

    answer = unpack(api, run_id, tmp_path)

    assert len(answer.names) > 4
    points = event_files.curves(tmp_path / run_id)["train/loss"]
    assert [step for step, _ in points] == list(range(1, 51))


def test_a_position_that_is_not_reached_yet_has_nothing_new(api: Api, tmp_path: Path) -> None:
    run_id, later = api.started(), api.service.ledger.position() + 1_000

    answer = unpack(api, run_id, tmp_path, after=later)

    assert (answer.position, answer.names) == (later, [])


@pytest.mark.parametrize(
    ("run", "parameters", "status"),
    [
        (UNKNOWN, {}, 404),
        (None, {"attempt": 2}, 404),
        (None, {"attempt": 0}, 400),
        (None, {"after": -1}, 400),
        (None, {"follow": "true"}, 400),
    ],
)
def test_what_there_is_not_is_a_problem(
    api: Api, run: str | None, parameters: dict[str, int | str], status: int
) -> None:
    api.get(f"/v1/runs/{run or api.started()}/tensorboard", status, **parameters)


def test_nobody_gets_event_files_without_the_token(api: Api) -> None:
    """S123."""
    apis.strict(api.client.get(f"/v1/runs/{api.started()}/tensorboard"), 401)


def test_a_server_without_the_package_says_what_to_install(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra, and everything else works without it."""
    monkeypatch.delitem(sys.modules, "projections.tensorboard.records", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)

    problem = api.get(f"/v1/runs/{api.started()}/tensorboard", 501)

    assert problem["type"] == f"/problems/{TENSORBOARD_MISSING.slug}"
    assert problem["detail"] == "the package tensorboard is not installed beside the server"
    assert "trainledger[tensorboard]" in problem["hint"]
