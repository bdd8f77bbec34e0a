"""Pausing and resuming over HTTP: a required choice, devices given back, nothing lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import apis, ledgers
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as server:
        yield server


def saved(api: Api) -> str:
    """A run that has made five updates and saved all of them."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 5))
    api.save(run_id, 5, line=6)
    return run_id


def test_a_run_at_work_saves_and_gives_its_devices_back(api: Api) -> None:
    """I4: accepted when it is asked for, PAUSED when the devices are free."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 5))

    answers = [
        api.post(f"/v1/runs/{run_id[:6]}:pause", {"checkpoint": "save"}, 202) for _ in range(2)
    ]
    heard = api.deliver(run_id, ledgers.step_lines(6, 6), first=6)
    api.save(run_id, 6, line=7)
    api.deliver(run_id, first=8, exit=apis.EXIT | {"code": 143})
    record = api.get(f"/v1/runs/{run_id}")

    assert answers[0] == answers[1]
    assert (answers[0]["runId"], answers[0]["phase"]) == (run_id, "PAUSING")
    pause = answers[0]["pause"]
    assert pause.keys() == {"checkpoint", "requestedAt", "resourcesReleased", "failed"}
    assert (pause["checkpoint"], pause["resourcesReleased"]) == ("save", False)
    assert heard["request"] == "pause"
    assert (record["phase"], record["savedStep"]) == ("PAUSED", 6)
    assert record["pause"] == pause | {"resourcesReleased": True}


def test_a_run_that_goes_back_to_what_is_saved_is_asked_to_stop(api: Api) -> None:
    """I4: ``latest`` gives up what came after the newest snapshot."""
    run_id = saved(api)
    api.deliver(run_id, ledgers.step_lines(6, 8), first=7)

    api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "latest"}, 202)
    heard = api.deliver(run_id, first=10, exit=None)
    api.deliver(run_id, first=10, exit=apis.EXIT | {"code": 143})
    record = api.get(f"/v1/runs/{run_id}")

    assert heard["request"] == "stop"
    assert (record["phase"], record["savedStep"], record["observedStep"]) == ("PAUSED", 5, 8)


def test_nothing_to_go_back_to_is_no_pause(api: Api) -> None:
    """I4: ``latest`` is refused where nothing can be resumed from, and the run goes on."""
    run_id = api.started()
    position = api.service.ledger.position()

    problem = api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "latest"}, 409)

    assert problem["type"] == "/problems/refused"
    assert "holds nothing that it can be resumed from" in problem["detail"]
    assert problem["hint"] == "pause it with --checkpoint save"
    assert api.service.ledger.position() == position


def test_a_pause_that_could_not_save_is_no_success(api: Api) -> None:
    """I4: the reason is in the record, and the run goes on."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 5))
    api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "save"}, 202)

    full = '{"kind": "saveFailed", "step": 5, "reason": "there is no room on the disk"}'
    heard = api.deliver(run_id, [full], first=6)
    record = api.get(f"/v1/runs/{run_id}")

    assert heard["request"] is None
    assert record["phase"] == "TRAINING"
    assert record["pause"]["failed"] == "there is no room on the disk"
    assert record["pause"]["resourcesReleased"] is False
    assert record["attempts"][0]["failedSaves"] == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (None, "Field required"),
        ({}, "checkpoint: Field required"),
        ({"checkpoint": "now"}, "checkpoint: Input should be 'save' or 'latest'"),
        ({"checkpoint": "save", "chekpoint": "save"}, "chekpoint is not known here"),
        ([], "Input should be"),
    ],
)
def test_how_to_pause_has_to_be_said(api: Api, body: Any, detail: str) -> None:
    """I4: a required choice."""
    run_id = api.started()

    problem = api.post(f"/v1/runs/{run_id}:pause", body, 400)

    assert detail in problem["detail"]
    assert api.get(f"/v1/runs/{run_id}")["pause"] is None


def test_a_paused_run_waits_for_devices_again(api: Api) -> None:
    """I5: the same id, metrics and snapshots; updates after the checkpoint are repeated."""
    run_id = saved(api)
    api.deliver(run_id, ledgers.step_lines(6, 8), first=7)
    api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "latest"}, 202)
    api.deliver(run_id, first=10, exit=apis.EXIT | {"code": 143})

    answer = api.post(f"/v1/runs/{run_id}:resume", status=202)
    api.opened_again(run_id)
    api.deliver(run_id, ledgers.step_lines(6, 7, loss=9.0), attempt=2)
    record = api.get(f"/v1/runs/{run_id}")

    assert answer == {"runId": run_id, "phase": "WAITING"}
    assert (record["phase"], record["pause"], record["observedStep"]) == ("TRAINING", None, 7)
    first, second = record["attempts"]
    assert (first["outcome"], first["reason"]) == ("paused", "the run was paused")
    assert first["superseded"] == {"fromStep": 6, "toStep": 8, "steps": 3}
    assert (second["restoredFrom"]["step"], second["firstStep"]) == (5, 6)
    rows = api.get(f"/v1/runs/{run_id}/metrics")["steps"]
    assert [(row["step"], row["attempt"]) for row in rows[4:]] == [(5, 1), (6, 2), (7, 2)]


def test_only_a_paused_run_is_resumed(api: Api) -> None:
    """I5, I26: and a run that has ended stays so."""
    run_id = api.started()
    ended = api.started()
    api.deliver(ended, [apis.COMPLETED], exit=apis.EXIT)

    problem = api.post(f"/v1/runs/{run_id}:resume", status=409)
    over = [
        api.post(f"/v1/runs/{ended}:resume", status=409),
        api.post(f"/v1/runs/{ended}:pause", {"checkpoint": "save"}, 409),
    ]

    assert problem["type"] == "/problems/refused"
    assert problem["hint"] == "pause it first"
    assert [each["type"] for each in over] == ["/problems/run-has-ended"] * 2
