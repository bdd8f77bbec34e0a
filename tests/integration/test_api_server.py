"""The server itself: is it ready, is its ledger true, and does it stay awake."""

import inspect
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from fastapi.routing import APIRoute

from api.__main__ import main
from api.routes import events, metrics, reports, runs, server
from api.settings import Settings
from tests import apis, ledgers
from tests.apis import EXIT, Api
from tests.product import eventually


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0", "cpu:1")) as server:
        yield server


def test_a_server_says_what_it_is(api: Api) -> None:
    """I22."""
    api.service.catch_up("documents", api.service.ledger.position())
    api.service.catch_up("warehouse", api.service.ledger.position())

    info = api.get("/v1/info")

    position = api.service.ledger.position()
    assert info["ready"] is True
    assert (info["backend"], info["position"]) == ("sqlite", position)
    assert info["home"] == str(api.service.settings.home)
    assert info["version"] == "0.1.0"
    assert info["devices"] == {"slots": ["cpu:0", "cpu:1"], "free": ["cpu:0", "cpu:1"]}
    assert info["projections"] == {
        "documents": {"position": position},
        "warehouse": {"position": position},
    }
    assert {check["name"] for check in info["checks"]} == {
        "disk",
        "documents",
        "warehouse",
        "published copy",
        "dispatch",
    }
    assert all(check["ok"] for check in info["checks"])


def test_health_is_told_to_everybody(api: Api) -> None:
    assert apis.strict(api.client.get("/healthz"), 200) == {"ok": True}


def test_a_server_whose_follower_failed_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22, U3: it says which part, and still answers what it can; then it recovers by itself."""
    monkeypatch.setattr("api.service.CATCH_UP_SECONDS", 0.1)
    with apis.api(tmp_path) as api:
        stranger = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        stranger.execute("ALTER TABLE document RENAME TO gone")
        ledgers.submit(api.service.ledger)
        follower = api.service.followers["documents"]
        eventually(lambda: follower.failure, "the follower has failed")

        problem = api.get("/v1/info", 503)
        verdict = api.post("/v1/audit")
        assert apis.strict(api.client.get("/healthz"), 200) == {"ok": True}
        stranger.execute("ALTER TABLE gone RENAME TO document")
        stranger.close()
        eventually(lambda: follower.failure is None, "the follower goes on")
        info = api.get("/v1/info")

    assert problem["type"] == "/problems/not-ready"
    assert problem["detail"] == "not ready: documents"
    assert problem["ready"] is False
    assert [check["name"] for check in problem["checks"] if not check["ok"]] == ["documents"]
    assert verdict["ok"] is False
    assert verdict["faults"] == [
        {
            "verdict": "projectionDiffers",
            "projection": "documents",
            "detail": "stands at position 0 of 2",
        }
    ]
    assert info["ready"] is True


def told(api: Api) -> str:
    """A run with everything that a projection keeps, once it is kept."""
    run_id = api.started()
    lines = [*ledgers.step_lines(1, 5), '{"kind": "validation", "step": 5, "measured": {"a": NaN}}']
    api.deliver(run_id, [*lines, apis.COMPLETED], exit=EXIT)
    for name in api.service.followers:
        api.service.catch_up(name, api.service.ledger.position())
    return run_id


def test_an_untouched_ledger_is_found_to_be_true(api: Api) -> None:
    """Audit: every chain, and both projections against a replay."""
    told(api)

    verdict = api.post("/v1/audit")

    assert verdict["ok"] is True
    assert verdict["faults"] == []
    assert verdict["position"] == verdict["events"] == api.service.ledger.position()
    assert verdict["streams"] >= 3
    assert verdict["seconds"] >= 0


def test_what_was_edited_behind_the_ledgers_back_is_named(tmp_path: Path) -> None:
    """Audit: stream and version of the first fault, and which projection says what else."""
    with apis.api(tmp_path) as api:
        run_id = told(api)

        with api.service._database.write() as connection:
            connection.execute("UPDATE document SET state = replace(state, 'rows.jsonl', 'others')")
        with api.service.warehouse.read() as cursor:
            cursor.execute("UPDATE metric SET loss = 0.5 WHERE step = 1")
        projections = api.post("/v1/audit")
        with api.service._database.write() as connection:
            connection.execute("DROP TRIGGER stored_event_never_changes")
            connection.execute(
                "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
                " WHERE stream LIKE '%/a1' AND version = 4"
            )
        events = api.post("/v1/audit")

    assert projections["ok"] is False
    assert {(fault["verdict"], fault["projection"]) for fault in projections["faults"]} == {
        ("projectionDiffers", "documents"),
        ("projectionDiffers", "warehouse"),
    }
    assert {fault["runId"] for fault in projections["faults"]} == {run_id}
    details = " ".join(fault["detail"] for fault in projections["faults"])
    assert "dataset" in details
    assert "table metric differs from the ledger in column loss" in details
    (fault,) = events["faults"]
    assert (fault["verdict"], fault["stream"]) == ("eventChanged", f"run/{run_id}/a1")
    assert fault["version"] == 5
    assert "does not follow what is stored before it" in fault["detail"]


def test_only_streams_and_deliveries_run_in_the_event_loop() -> None:
    """style.md: routes that query are plain functions, which get a thread of their own."""
    modules = (runs, events, metrics, reports, server)
    routes = [route for module in modules for route in module.router.routes]

    awaited = {
        route.endpoint.__name__
        for route in routes
        if isinstance(route, APIRoute) and inspect.iscoroutinefunction(route.endpoint)
    }

    assert awaited == {"read_events", "deliver", "health"}


def test_the_event_loop_is_never_held_up(api: Api) -> None:
    """style.md: SQLite and DuckDB block, so that they are called elsewhere."""
    run_id = api.started()
    lines = ledgers.step_lines(1, 9)

    with blockbuster_ctx(["api", "ledger", "projections", "engine.dispatch"]):
        taken = api.deliver(run_id, lines)
        api.deliver(run_id, [apis.COMPLETED], first=10, exit=EXIT)
        text = api.events(run_id, follow="true")
        api.get(f"/v1/runs/{run_id}/metrics")
        api.get("/v1/runs")
        api.get("/healthz")

    assert taken["taken"] == 9
    assert apis.loads(text.splitlines()[-1])["kind"] == "runCompleted"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"TRAINLEDGER_HOSTS": "x"}, "TRAINLEDGER_HOSTS is no setting; known are "),
        ({"TRAINLEDGER_PORT": "x"}, "port: Input should be a valid integer"),
        ({"TRAINLEDGER_DEVICES": "cpu:0"}, "a list is written as JSON"),
        ({}, "trainledger.toml: "),
        ({}, "hots: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_setting_is_a_sentence_and_no_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: dict[str, str],
    sentence: str,
) -> None:
    """style.md, settings: unknown names are errors."""
    for name, value in {"TRAINLEDGER_HOME": str(tmp_path), **setting}.items():
        monkeypatch.setenv(name, value)
    if not setting:
        text = "hots = 1" if "hots" in sentence else "port = ["
        (tmp_path / "trainledger.toml").write_text(text)

    status = main()

    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith("settings: ")
    assert sentence in said
    assert not (tmp_path / "ledger.db").exists()


def test_a_home_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service file has no shell that would expand it; an empty value is no value."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRAINLEDGER_HOME", "~/ledger")
    monkeypatch.setenv("TRAINLEDGER_PORT", "")
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "trainledger.toml").write_text("port = 4711")

    settings = Settings()

    assert (settings.home, settings.port) == (tmp_path / "ledger", 4711)
