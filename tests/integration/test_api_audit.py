"""Proof over HTTP: verdicts on what was edited behind the server's back, the log, the receipt."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.service import Service, utc_now
from api.settings import Settings
from ledger import signing
from ledger.events import SEALS
from tests import apis, ledgers
from tests.answers import ROUTES
from tests.apis import EXIT, Api
from tests.archives import unpack
from tests.product import eventually

STEPS = 5


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def ended(api: Api, **fields: Any) -> str:
    """A run that saved a snapshot and completed, once a seal covers it and projections have it."""
    run_id = api.started(**fields)
    api.deliver(run_id, ledgers.step_lines(1, STEPS))
    api.save(run_id, STEPS, line=STEPS + 1)
    api.deliver(run_id, [apis.COMPLETED], first=STEPS + 2, exit=EXIT)
    eventually(
        lambda: api.get(f"/v1/runs/{run_id}/receipt")["seal"], f"the end of {run_id} is sealed"
    )
    for name in api.service.followers:
        api.service.catch_up(name, api.service.ledger.position())
    return run_id


@pytest.fixture
def api(home: Path) -> Iterator[Api]:
    with apis.sealing(home, devices=("cpu:0",)) as server:
        yield server


def edited(home: Path, *statements: str) -> None:
    """Change the event database of a home by hand."""
    with closing(sqlite3.connect(home / "ledger.db", timeout=10)) as connection, connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement


# -- verdicts --------------------------------------------------------------------------------------


def test_a_ledger_that_nobody_touched_is_whole(api: Api) -> None:
    run_id = ended(api)

    everything, run = api.post("/v1/audit"), api.post("/v1/audit", run=run_id[:6])

    for verdict in (everything, run):
        assert verdict["ok"] is True
        assert verdict["faults"] == []
        assert verdict.keys() == ROUTES["audit"].example.keys()
        assert verdict["seals"].keys() == ROUTES["audit"].example["seals"].keys()
        assert verdict["chainSeconds"] <= verdict["seconds"]
    assert (everything["runId"], run["runId"]) == (None, run_id)
    assert everything["seals"] | {"keys": []} == {
        "count": 1,
        "upto": everything["position"] - 1,
        "signed": 0,
        "keys": [],
        "signaturesChecked": True,
    }


def test_a_tail_that_was_cut_off_is_found_while_the_server_runs(api: Api, home: Path) -> None:
    """Issue 7: the server itself has seen more than there is."""
    ended(api)
    end = api.service.ledger.position()
    edited(home, f"DELETE FROM stored_event WHERE position > {end - 4}")

    (fault,) = api.post("/v1/audit")["faults"]

    assert fault["verdict"] == "eventChanged"
    assert fault["position"] == end - 3
    assert fault["detail"] == (
        f"the ledger ends at position {end - 4}, and this server has come to {end}: the newest "
        "events were removed"
    )


def test_a_tail_that_was_cut_off_is_found_by_the_next_server(home: Path) -> None:
    """A projection whose position lies beyond the end of the ledger tells."""
    with apis.sealing(home) as api:
        ended(api)
        end = api.service.ledger.position()
    edited(
        home,
        f"DELETE FROM stored_event WHERE position > {end - 4}",
        f"UPDATE document_tracking SET position = {end - 4}",
    )

    service = Service(Settings(home=home, devices=()))  # not started: the run is open again
    (fault,) = service.auditor.verify()["faults"]
    service.warehouse.close()
    service._database.close()

    assert fault["detail"].startswith(
        f"the ledger ends at position {end - 4}, and warehouse has come to {end}"
    )


def test_a_document_that_was_edited_is_found(api: Api, home: Path) -> None:
    run_id = ended(api)
    edited(home, "UPDATE document SET state = replace(state, 'rows.jsonl', 'others')")

    everything, run = api.post("/v1/audit"), api.post("/v1/audit", run=run_id)

    for verdict in (everything, run):
        (fault,) = verdict["faults"]
        assert fault == {
            "verdict": "projectionDiffers",
            "projection": "documents",
            "runId": run_id,
            "detail": "state.plan.dataset differs from the ledger",
        }


def test_a_warehouse_that_was_edited_is_found(home: Path) -> None:
    """In the file, while no server has it open."""
    with apis.sealing(home) as api:
        run_id, other = ended(api), ended(api)
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        connection.execute("UPDATE metric SET loss = 0.5 WHERE step = 1 AND run_id = ?", [run_id])

    with apis.sealing(home) as api:
        everything, run = api.post("/v1/audit"), api.post("/v1/audit", run=run_id)
        untouched = api.post("/v1/audit", run=other)

    for verdict, where in ((everything, ["warehouse", "published copy"]), (run, ["warehouse"])):
        assert [each["projection"] for each in verdict["faults"]] == where
        for fault in verdict["faults"]:
            assert fault["runId"] == run_id
            assert fault["detail"] == "table metric differs from the ledger in column loss"
    assert untouched["ok"] is True


def test_a_row_that_was_added_to_the_warehouse_is_found(home: Path) -> None:
    with apis.sealing(home) as api:
        run_id = ended(api)
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO metric SELECT * FROM metric WHERE step = 1")

    with apis.sealing(home) as api:
        (fault,) = api.post("/v1/audit", run=run_id)["faults"]

    assert fault["detail"] == f"table metric has {STEPS + 1} rows, the ledger makes {STEPS}"


def test_a_changed_event_is_named_and_nothing_is_replayed(api: Api, home: Path) -> None:
    run_id = ended(api)
    edited(
        home,
        "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
        " WHERE stream LIKE '%/a1' AND version = 4",
    )

    for verdict in (api.post("/v1/audit"), api.post("/v1/audit", run=run_id)):
        (fault,) = verdict["faults"]
        assert fault["verdict"] == "eventChanged"
        assert (fault["stream"], fault["version"]) == (f"run/{run_id}/a1", 5)
        assert fault["position"] > 5


def test_an_event_that_is_chained_but_not_what_its_topic_says_is_named(
    api: Api, home: Path
) -> None:
    """Its bytes are in order, so only the replay finds it."""
    ended(api)
    end = api.service.ledger.position()
    edited(
        home,
        f"INSERT INTO stored_event VALUES ({end + 1}, 'run/x', 1, 'run.completed.v1',"
        f" CAST(zeroblob(32) || '{{}}' AS BLOB))",
    )

    (fault,) = api.post("/v1/audit")["faults"]

    assert fault == {
        "verdict": "eventChanged",
        "stream": "run/x",
        "version": 1,
        "position": end + 1,
        "detail": "version 1 of run/x is not a run.completed.v1",
    }


def test_there_is_no_such_run_to_verify(api: Api) -> None:
    assert api.post("/v1/audit", status=404, run="abcdef")["type"] == "/problems/run-not-found"


# -- the log and the receipt -----------------------------------------------------------------------


def test_the_log_says_who_did_what_and_when(api: Api) -> None:
    run_id = api.post("/v1/runs", {"plan": ledgers.DOCUMENT, "submissionId": "night-7"}, 201)[
        "runId"
    ]
    ledgers.open_attempt(api.service.ledger, run_id)
    api.deliver(run_id, ledgers.step_lines(1, STEPS))
    api.post(f"/v1/runs/{run_id}:cancel", status=202)

    log = api.get(f"/v1/runs/{run_id}/audit-log")

    example = ROUTES["read_audit_log"].example
    assert log.keys() == example.keys()
    assert all(each.keys() == example["events"][0].keys() for each in log["events"])
    who = [(each["kind"], each["principal"]) for each in log["events"]]
    assert who[:3] == [
        ("submissionAccepted", "operator"),
        ("runSubmitted", "operator"),
        ("attemptOpened", "dispatch"),
    ]
    assert ("cancelRequested", "operator") in who
    assert "stepReported" not in dict(who)
    positions = [each["position"] for each in log["events"]]
    assert positions == sorted(positions)
    assert log["events"][0]["stream"] == "submission/night-7"
    assert log["events"][2]["facts"]["tokenSha256"]


def test_the_log_tells_who_held_a_snapshot_of_the_run(api: Api) -> None:
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, STEPS))
    snapshot_id = api.save(run_id, STEPS, line=STEPS + 1)
    api.post(f"/v1/snapshots/{snapshot_id}:pin")

    body = {"snapshot": snapshot_id, "steps": 3}
    api.post(f"/v1/runs/{run_id}:branch", body, 202)

    def held() -> Any:
        events = api.get(f"/v1/runs/{run_id}/audit-log")["events"]
        return [each for each in events if each["kind"] == "snapshotHeld"]

    (event,) = eventually(held, "the snapshot is held for the child")
    assert event["stream"] == f"snapshot/{snapshot_id}"


def test_a_receipt_has_everything_that_proves_a_run(api: Api) -> None:
    """Issue 7: head digest, snapshot digests, bill, who did what, on one page."""
    run_id = ended(api)

    receipt = api.get(f"/v1/runs/{run_id}/receipt")

    example = ROUTES["read_receipt"].example
    assert receipt.keys() == example.keys()
    for name in ("plan", "bill", "seal"):
        assert receipt[name].keys() == example[name].keys(), name
    for name in ("heads", "snapshots", "principals"):
        assert receipt[name][0].keys() == example[name][0].keys(), name
    record = api.get(f"/v1/runs/{run_id}")
    assert receipt["bill"] == record["cost"]
    assert receipt["phase"] == "COMPLETED"
    (snapshot,) = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    assert receipt["snapshots"][0]["digests"] == snapshot["digests"]
    streams = [each["stream"] for each in receipt["heads"]]
    assert streams[:2] == [f"run/{run_id}", f"run/{run_id}/a1"]
    assert receipt["seal"]["upto"] >= max(each["position"] for each in receipt["heads"])
    people = {each["principal"]: each["did"] for each in receipt["principals"]}
    assert people["attempt/1"]["reports"] == receipt["heads"][1]["version"]
    assert people["tester"]["runSubmitted"] == 1


def test_the_heads_of_a_receipt_are_those_of_the_seal(api: Api) -> None:
    """So that whoever kept one can compare it with any later ledger."""
    run_id = ended(api)

    receipt = api.get(f"/v1/runs/{run_id}/receipt")

    (seal,) = api.service.ledger.stream(SEALS)
    sealed = {name: head.digest for name, head in seal.heads.items()}  # type: ignore[attr-defined]
    assert {each["stream"]: each["digest"] for each in receipt["heads"]}.items() <= sealed.items()
    assert receipt["seal"]["digest"] == seal.digest  # type: ignore[attr-defined]


def test_a_run_that_goes_on_has_a_receipt_without_a_seal(api: Api) -> None:
    run_id = api.started()

    assert api.get(f"/v1/runs/{run_id}/receipt")["seal"] is None


def test_a_key_signs_the_seals_from_then_on(api: Api) -> None:
    first = ended(api)

    made = api.post("/v1/audit/key", status=201)
    second = ended(api)

    assert made.keys() == ROUTES["make_seal_key"].example.keys()
    seals = [api.get(f"/v1/runs/{each}/receipt")["seal"] for each in (first, second)]
    assert seals[0]["signature"] is None
    assert seals[1]["publicKey"] == made["publicKey"]
    text = "upto {upto}\nevents {events}\ndigest {digest}\n".format(**seals[1])
    assert signing.fits(made["publicKey"], seals[1]["signature"], text.encode())
    assert api.post("/v1/audit")["seals"]["keys"] == [made["publicKey"]]
    assert api.post("/v1/audit/key", status=409)["type"] == "/problems/refused"


def test_a_file_that_is_no_key_is_shown_where_the_server_says_how_it_is(
    api: Api, home: Path
) -> None:
    (home / "seal.key").write_text("nonsense")
    run_id = api.started()
    api.deliver(run_id, [apis.COMPLETED], exit=EXIT)

    eventually(lambda: api.service.sealing.failure, "sealing fails")

    problem = api.get("/v1/info", 503)
    assert "seals" in problem["detail"]


# -- replays ---------------------------------------------------------------------------------------


def unpacked(api: Api, path: str, folder: Path, **parameters: Any) -> Path:
    """The folder with the files of an archive."""
    answer = api.client.get(path, headers=api.token, params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-tar"
    return unpack(answer.content, folder)


def test_a_replay_is_what_the_projections_were_then(api: Api, tmp_path: Path) -> None:
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 2))
    then, at = api.service.ledger.position(), api.get("/v1/info")["position"]
    before = api.service.documents.row(run_id)
    api.deliver(run_id, ledgers.step_lines(3, 4), first=3)

    folder = unpacked(api, "/v1/audit/replay", tmp_path / "then", to=then)

    assert at == then
    with closing(sqlite3.connect(folder / "documents.db")) as connection:
        ((state,),) = connection.execute("SELECT state FROM document").fetchall()
    assert before is not None
    assert state == before.stored()[-1]
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT step FROM metrics ORDER BY step").fetchall() == [
            (1,),
            (2,),
        ]
        assert connection.execute("SELECT max(position) FROM tracking").fetchall() == [(then,)]
    assert list(api.service.settings.home.glob("exchange/*")) == []


def test_a_moment_means_the_position_that_the_ledger_had_come_to(api: Api, tmp_path: Path) -> None:
    run_id = api.started()
    submitted = api.get(f"/v1/runs/{run_id}")["submittedAt"]
    ledger = api.service.ledger

    manifests = [
        (unpacked(api, "/v1/audit/replay", tmp_path / str(n), to=to) / "manifest.json").read_text()
        for n, to in enumerate(
            ("2020-01-01", submitted.replace("Z", "999Z"), utc_now().isoformat())
        )
    ]

    assert '"position":0' in manifests[0]
    assert '"position":2' in manifests[1]
    assert f'"position":{ledger.position()}' in manifests[2]


@pytest.mark.parametrize("to", ["yesterday", "", "-1", "9" * 5_000, "2026-13-01"])
def test_what_is_neither_a_position_nor_a_time_is_refused(api: Api, to: str) -> None:
    problem = api.get("/v1/audit/replay", 400, to=to)

    assert problem["detail"] == f"{to[:80]!r} is neither a position nor a time"


@pytest.mark.parametrize(
    ("to", "detail"),
    [
        ("2100-01-01", "2100-01-01T00:00:00.000Z is in the future: it is "),
        ("999", "position 999 is beyond the end of the ledger, which is at "),
    ],
)
def test_a_moment_that_is_still_to_come_is_refused(api: Api, to: str, detail: str) -> None:
    """As of any other answer: what would be made is of now, and somebody would take it for then."""
    api.started()

    assert api.get("/v1/audit/replay", 400, to=to)["detail"].startswith(detail)


def test_what_is_done_to_the_copy_and_the_views_of_analysts_is_found_and_mended(
    home: Path,
) -> None:
    """Issue 7: in the files, behind the server's back; the command that is named makes it true."""
    with apis.sealing(home) as api:
        ended(api)
        api.post("/v1/sql:publish")
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE VIEW newest AS SELECT 1 AS position")

    with apis.sealing(home) as api:
        api.post("/v1/sql:publish")
        with duckdb.connect(str(home / "analytics.duckdb")) as connection:
            connection.execute("UPDATE metric SET loss = 0")
        faults = api.post("/v1/audit")["faults"]
        api.client.post("/v1/audit/rebuild", headers=api.token).raise_for_status()
        after = api.post("/v1/audit")["faults"]

    view = "view newest is not the one that is made for analysts"
    assert [(each["projection"], each["detail"]) for each in faults] == [
        ("warehouse", view),
        ("published copy", view),
        ("published copy", "table metric differs from the ledger in column loss"),
    ]
    assert after == []
