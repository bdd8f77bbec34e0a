"""Projections made anew on a server that keeps serving."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import pytest

from projections import replay
from tests import apis, ledgers
from tests.answers import ROUTES
from tests.apis import EXIT, Api
from tests.product import eventually

STEPS = 5
PATH = "/v1/audit/rebuild"


def ended(api: Api) -> str:
    """A run that has completed, in both projections."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, STEPS))
    api.deliver(run_id, [apis.COMPLETED], first=STEPS + 1, exit=EXIT)
    for name in api.service.followers:
        assert api.service.catch_up(name, api.service.ledger.position())
    return run_id


def rebuilt(api: Api, **parameters: Any) -> list[dict[str, Any]]:
    """Each line of the answer."""
    answer = api.client.post(PATH, params=parameters, headers=api.token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/jsonl"
    return [apis.loads(line) for line in answer.text.splitlines()]


def damage_documents(home: Path) -> None:
    with closing(sqlite3.connect(home / "ledger.db", timeout=10)) as connection, connection:
        connection.execute("UPDATE document SET phase = 'FAILED', position = position + 1")
        connection.execute("DELETE FROM milestone")


def damage_warehouse(api: Api) -> None:
    with api.service.warehouse.read() as cursor:
        cursor.execute("UPDATE metric SET loss = 0 WHERE step = 3")
        cursor.execute("DELETE FROM phase")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with apis.api(tmp_path / "home", devices=("cpu:0",)) as server:
        yield server


def losses(api: Api) -> list[float]:
    """What an analyst reads in the published copy."""
    path = api.get("/v1/sql")["path"]
    with duckdb.connect(path, read_only=True) as copy:
        return [
            loss for (loss,) in copy.execute("FROM metrics SELECT loss ORDER BY step").fetchall()
        ]


def test_what_the_audit_found_is_mended_and_what_everybody_reads_is_true(
    api: Api, tmp_path: Path
) -> None:
    """Issue 7: a projection that differs; the copy for analysts is renewed with it."""
    run_id = ended(api)
    api.post("/v1/sql:publish")
    damage_documents(tmp_path / "home")
    damage_warehouse(api)
    api.service.publisher._published = -1  # as if the damaged one were published by now
    api.post("/v1/sql:publish")
    wrong = losses(api)
    found = {each["projection"] for each in api.post("/v1/audit")["faults"]}

    *told, last = rebuilt(api)

    end = api.service.ledger.position()
    assert found == {"documents", "warehouse", "published copy"}
    assert wrong[2] == 0
    assert {each["projection"] for each in told} == {"documents", "warehouse"}
    assert all(0 <= each["position"] <= each["upto"] == end for each in told)
    assert last.keys() == ROUTES["rebuild_projections"].example.keys()
    assert (last["rebuilt"], last["position"]) == (["documents", "warehouse"], end)
    assert api.post("/v1/audit")["faults"] == []
    assert api.get(f"/v1/runs/{run_id}")["phase"] == "COMPLETED"
    assert losses(api) == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert list((tmp_path / "home" / "exchange").iterdir()) == []


@pytest.mark.parametrize(("one", "other"), [("documents", "warehouse"), ("warehouse", "documents")])
def test_only_the_projection_that_is_asked_for_is_made_anew(
    api: Api, tmp_path: Path, one: str, other: str
) -> None:
    ended(api)
    damage_documents(tmp_path / "home")
    damage_warehouse(api)

    last = rebuilt(api, projection=one)[-1]

    assert last["rebuilt"] == [one]
    left = {each["projection"] for each in api.post("/v1/audit")["faults"]}
    assert left - {"published copy"} == {other}  # which may be from before or after the damage


def test_what_is_made_anew_goes_on_with_what_comes(api: Api) -> None:
    ended(api)
    rebuilt(api)

    run_id = ended(api)

    assert api.get(f"/v1/runs/{run_id}")["observedStep"] == STEPS
    assert api.post("/v1/audit")["faults"] == []


def test_a_ledger_that_is_not_what_was_written_makes_no_projections(
    api: Api, tmp_path: Path
) -> None:
    """They would say what the ledger says, and the audit would call them true."""
    run_id = ended(api)
    with closing(sqlite3.connect(tmp_path / "home" / "ledger.db")) as connection, connection:
        connection.execute("DROP TRIGGER stored_event_never_changes")
        connection.execute(
            "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
            f" WHERE stream = 'run/{run_id}/a1' AND version = 4"
        )

    problem = api.post(PATH, status=409)

    assert problem["detail"].startswith("1 of the stored streams or seals is not what was written")
    assert problem["hint"] == "trainledger audit verify names it"
    with api.service.warehouse.read() as cursor:
        assert cursor.execute("SELECT loss FROM metric WHERE step = 4").fetchall() == [(0.25,)]


def test_projections_of_a_longer_ledger_are_made_anew_of_the_one_that_is_there(
    tmp_path: Path,
) -> None:
    """An older ledger was put back: they say so themselves, and which command helps."""
    home = tmp_path / "home"
    with apis.api(home, devices=("cpu:0",)) as api:
        ended(api)
        kept = api.service.ledger.position()
        ledgers.submit(api.service.ledger)
        end = api.service.ledger.position()
        for name in api.service.followers:
            assert api.service.catch_up(name, end)
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        connection.execute("DROP TRIGGER stored_event_never_goes")
        connection.execute("DELETE FROM stored_event WHERE position > ?", (kept,))

    with apis.api(home) as api:
        said = eventually(lambda: _of_documents(api), "the projection has noticed")
        rebuilt(api)
        eventually(lambda: not _of_documents(api), "it works")
        faults = api.post("/v1/audit")["faults"]

    assert said is not None
    assert said.startswith(f"it has come to position {end} and the ledger ends at ")
    assert said.endswith("it is of another ledger; trainledger audit rebuild makes it anew")
    assert faults == []


def _of_documents(api: Api) -> str | None:
    """What is wrong with the documents, as the server's checks say it."""
    (check,) = (each for each in api.service.checks() if each["name"] == "documents")
    return None if check["ok"] else check["detail"]


def test_no_other_projection_can_be_named(api: Api) -> None:
    problem = api.post(PATH, status=400, projection="ledger")

    assert "projection: Input should be 'documents' or 'warehouse'" in problem["detail"]


def test_a_client_that_leaves_ends_it_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: the processes end, the live projections stay, and somebody else may ask."""
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexec sleep 30\n")
    interpreter.chmod(0o700)
    with apis.listening(tmp_path / "home") as api:
        ended(api)
        with monkeypatch.context() as patched:
            patched.setattr(replay, "LITTLE", 1)
            patched.setattr(sys, "executable", str(interpreter))
            with api.client.stream("POST", PATH, headers=api.token) as answer:
                lines = answer.iter_lines()  # whose end would be the client's leaving
                assert next(lines)
                busy = api.post(PATH, status=409)

        again = eventually(lambda: _if_free(api), "whoever left is forgotten")
        left = list((tmp_path / "home" / "exchange").iterdir())

    assert busy["detail"] == "projections are being made anew already"
    assert apis.loads(again.text.splitlines()[-1])["rebuilt"] == ["documents", "warehouse"]
    assert left == []


def _if_free(api: Api) -> httpx2.Response | None:
    answer = api.client.post(PATH, headers=api.token)
    return answer if answer.status_code == 200 else None
