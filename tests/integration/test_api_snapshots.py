"""Snapshots over HTTP: what a run saved, what is kept of it, and for how long."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import apis, ledgers
from tests.apis import BOTH, WRITER, Api
from tests.product import eventually

MEMBERS = {
    "snapshotId",
    "runId",
    "attempt",
    "step",
    "epoch",
    "artifacts",
    "sizeBytes",
    "sizes",
    "digests",
    "uri",
    "status",
    "restorable",
    "pinned",
    "heldBy",
    "committedAt",
    "sweptAt",
    "damage",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


def saved(api: Api, *steps: int, **execution: Any) -> tuple[str, list[str]]:
    """A run that saved these updates, and the ids of its snapshots."""
    run_id = api.started(execution=execution)
    line, ids = 1, []
    for before, step in zip((0, *steps), steps, strict=False):
        api.deliver(run_id, ledgers.step_lines(before + 1, step), first=line)
        line += step - before
        ids.append(api.save(run_id, step, line=line, epoch=step / 10))
        line += 1
    return run_id, ids


def listed(api: Api, run_id: str) -> list[dict[str, Any]]:
    snapshots: list[dict[str, Any]] = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    return snapshots


def test_the_snapshots_of_a_run_are_listed_newest_first(api: Api) -> None:
    """I7: step, epoch, id, kinds, size and status of each."""
    run_id, ids = saved(api, 5, 10)

    answer = api.get(f"/v1/runs/{run_id[:6]}/snapshots")

    newest, oldest = answer["snapshots"]
    assert answer["runId"] == run_id
    assert [newest["snapshotId"], oldest["snapshotId"]] == ids[::-1]
    assert newest.keys() >= MEMBERS
    assert (newest["runId"], newest["attempt"]) == (run_id, 1)
    assert (newest["step"], newest["epoch"]) == (10, 1.0)
    assert tuple(newest["artifacts"]) == BOTH
    assert newest["sizes"] == {"weights": 1_000, "trainingState": 2_010}
    assert newest["sizeBytes"] == 3_010
    assert (newest["status"], newest["restorable"]) == ("committed", True)
    assert (newest["pinned"], newest["heldBy"], newest["sweptAt"]) == (False, [], None)
    record = api.get(f"/v1/runs/{run_id}")
    assert record["savedStep"] == 10
    assert record["saved"] == {"snapshotId": ids[1], "step": 10, "epoch": 1.0}


def test_a_run_that_saved_nothing_has_an_empty_list(api: Api) -> None:
    run_id = api.started()

    assert api.get(f"/v1/runs/{run_id}/snapshots") == {"runId": run_id, "snapshots": []}
    api.get("/v1/runs/0000000000000000/snapshots", 404)


def test_files_that_are_not_yet_committed_are_no_snapshot(api: Api) -> None:
    """I9: nor is what a worker broke off."""
    run_id = api.started()
    output = api.folder(run_id) / "output"
    (output / "checkpoint-3.partial").mkdir(parents=True)
    (output / "checkpoint-3.partial" / "weights").write_bytes(b"half")
    gone = f'{{"kind": "snapshot", "step": 5, "path": "{output}/none", "artifacts": ["weights"]}}'

    api.deliver(run_id, [*ledgers.step_lines(1, 5), gone])
    eventually(lambda: not api.service.ledger.run(run_id).offers, "the offer is decided")

    assert listed(api, run_id) == []
    assert api.get(f"/v1/runs/{run_id}")["savedStep"] is None


def test_one_snapshot_says_what_it_is_made_of_and_who_wrote_it(api: Api) -> None:
    """I8: origin, kinds, digest per kind, writing engine, model shape."""
    run_id, (snapshot_id,) = saved(api, 5)

    snapshot = api.get(f"/v1/snapshots/{snapshot_id}")

    assert (snapshot["runId"], snapshot["attempt"], snapshot["step"]) == (run_id, 1, 5)
    assert snapshot["writer"] == WRITER
    assert snapshot["digests"].keys() == set(BOTH)
    assert snapshot["manifest"]["files"] == {
        "adapter_model.safetensors": {
            "sha256": hashlib.sha256(b"w" * 1_000).hexdigest(),
            "sizeBytes": 1_000,
            "artifact": "weights",
        },
        "trainingState/optimizer.pt": {
            "sha256": hashlib.sha256(b"o" * 2_005).hexdigest(),
            "sizeBytes": 2_005,
            "artifact": "trainingState",
        },
    }
    assert {name: snapshot[name] for name in MEMBERS} == listed(api, run_id)[0]


@pytest.mark.parametrize("length", [4, 12, 64])
def test_a_snapshot_is_found_by_the_beginning_of_its_id(api: Api, length: int) -> None:
    """design.md, HTTP: any unambiguous prefix of 4 or more."""
    _, (snapshot_id,) = saved(api, 5)

    assert api.get(f"/v1/snapshots/{snapshot_id[:length]}")["snapshotId"] == snapshot_id


@pytest.mark.parametrize("name", ["0" * 64, "000", "ABCDEF", "f" * 65, "%2e%2e", "a%00bc", "x:pin"])
def test_what_is_no_snapshot_is_not_found(api: Api, name: str) -> None:
    """C23, I26: a problem of its own, which says where to look."""
    problem = api.get(f"/v1/snapshots/{name}", 404)

    assert problem["type"] == "/problems/snapshot-not-found"
    assert problem["hint"] == "trainledger runs snapshots RUN shows those of a run"


def test_a_beginning_that_several_snapshots_share_names_them(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C23: the candidates are listed, and nothing is changed."""
    _, ids = saved(api, 5, 10)
    both = [api.get(f"/v1/snapshots/{each}") for each in ids]
    monkeypatch.setattr(api.service.documents, "snapshot", lambda _: both)
    position = api.service.ledger.position()

    problem = api.get("/v1/snapshots/abcd", 409)
    api.post("/v1/snapshots/abcd:pin", status=409)

    assert problem["type"] == "/problems/ambiguous-id"
    assert problem["detail"] == "abcd is how the ids of 2 snapshots begin"
    assert problem["candidates"] == ids
    assert api.service.ledger.position() == position


def test_a_pinned_snapshot_is_kept_whatever_the_plan_says(api: Api) -> None:
    """I10: and asking twice changes nothing."""
    run_id, (first,) = saved(api, 5, keepTrainingState=1, keepWeights=1)

    answers = [api.post(f"/v1/snapshots/{first[:8]}:pin") for _ in range(2)]
    position = api.service.ledger.position()
    api.deliver(run_id, ledgers.step_lines(6, 15), first=7)
    api.save(run_id, 10, line=17)
    api.save(run_id, 15, line=18)

    assert [answer["pinned"] for answer in answers] == [True, True]
    assert answers[0] == answers[1]
    by_step = {each["step"]: each for each in listed(api, run_id)}
    assert tuple(by_step[5]["artifacts"]) == BOTH
    assert by_step[10]["artifacts"] == []
    kinds = [apis.loads(line)["kind"] for line in api.events(run_id).splitlines()]
    assert kinds.count("snapshotPinned") == 1
    assert position < api.service.ledger.position()


def test_what_is_no_longer_pinned_goes_with_the_next_sweep(api: Api) -> None:
    """I10, U13: a sweep says how many bytes it freed, and again nothing when there is nothing."""
    run_id, (first,) = saved(api, 5, keepTrainingState=1, keepWeights=1)
    api.post(f"/v1/snapshots/{first}:pin")
    api.deliver(run_id, ledgers.step_lines(6, 10), first=7)
    api.save(run_id, 10, line=12)
    kept = api.post(f"/v1/runs/{run_id}:sweep")

    assert api.post(f"/v1/snapshots/{first}:unpin")["pinned"] is False
    freed = [api.post(f"/v1/runs/{run_id}:sweep") for _ in range(2)]

    assert kept == {"runId": run_id, "freedBytes": 0}
    assert freed[0]["freedBytes"] >= 3_005  # the manifest goes as well
    assert freed[1]["freedBytes"] == 0
    saved_one, swept = listed(api, run_id)
    assert (saved_one["step"], saved_one["status"]) == (10, "committed")
    assert (swept["status"], swept["artifacts"], swept["sizeBytes"]) == ("swept", [], 0)
    assert swept["sweptAt"] is not None


def test_a_swept_snapshot_is_told_without_its_files_and_cannot_be_kept(api: Api) -> None:
    """I9, I10: the row stays, so that the history can be read."""
    _, (first, _) = saved(api, 5, 10, keepTrainingState=1, keepWeights=1)

    snapshot = api.get(f"/v1/snapshots/{first}")
    problem = api.post(f"/v1/snapshots/{first}:pin", status=409)

    assert snapshot["status"] == "swept"
    assert "manifest" not in snapshot
    assert problem["type"] == "/problems/refused"
    assert "nothing is left of it" in problem["detail"]


def test_a_snapshot_without_training_state_cannot_be_resumed_from(api: Api) -> None:
    """I11."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 5))

    api.save(run_id, 5, line=6, artifacts=["weights"])

    (snapshot,) = listed(api, run_id)
    assert (snapshot["artifacts"], snapshot["restorable"]) == (["weights"], False)
    assert api.get(f"/v1/runs/{run_id}")["savedStep"] is None


def test_a_manifest_that_was_changed_is_said_and_no_failure(tmp_path: Path) -> None:
    """C23: what the store holds is evidence, and the ledger's own facts are there all the same."""
    with apis.api(tmp_path) as api:
        run_id, (snapshot_id,) = saved(api, 5)
        place = tmp_path / "snapshots" / run_id / snapshot_id
        (place / "manifest.json").write_text("{}")
        changed = api.get(f"/v1/snapshots/{snapshot_id}")
        shutil.rmtree(tmp_path / "snapshots")
        away = api.get(f"/v1/snapshots/{snapshot_id}", 503)

    assert changed["manifest"] is None
    assert "is not the one that was saved" in changed["manifestFault"]
    assert changed["digests"].keys() == set(BOTH)
    assert away["type"] == "/problems/snapshot-store"


def test_snapshots_later_than_a_restore_stay_listed_and_are_marked(api: Api) -> None:
    """D5: superseded, and not what the run would go on from."""
    run_id, (first, second) = saved(api, 5, 10)
    api.deliver(run_id, ['{"kind": "restore", "step": 5}'], first=13)

    newest, oldest = listed(api, run_id)

    assert (newest["snapshotId"], newest["status"]) == (second, "superseded")
    assert newest["restorable"] is False
    assert (oldest["snapshotId"], oldest["status"]) == (first, "committed")
    assert api.get(f"/v1/runs/{run_id}")["savedStep"] == 5


def test_a_run_that_has_ended_keeps_its_snapshots_and_its_phase(api: Api) -> None:
    """U3, I10: pins and sweeps after the end change nothing about the run itself."""
    run_id, (snapshot_id,) = saved(api, 5)
    api.deliver(run_id, [apis.COMPLETED], first=7, exit=apis.EXIT)
    before = api.get(f"/v1/runs/{run_id}")

    pinned = api.post(f"/v1/snapshots/{snapshot_id}:pin")
    swept = api.post(f"/v1/runs/{run_id}:sweep")

    after = api.get(f"/v1/runs/{run_id}")
    assert (pinned["pinned"], swept["freedBytes"]) == (True, 0)
    assert after | {"position": before["position"]} == before
    assert after["phase"] == "COMPLETED"
