"""The server itself: is it ready, is its ledger true, and does it stay awake."""

import inspect
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from fastapi.routing import APIRoute

from api.__main__ import main
from api.routes import events, logs, metrics, reports, runs, server, snapshots
from api.settings import Settings
from ledger.events import Job
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
        "snapshots",
        "branches",
        "seals",
        "price book",
    }
    assert all(check["ok"] for check in info["checks"])


QUERIES = [
    ("GET", "/healthz"),
    ("GET", "/v1/info"),
    ("POST", "/v1/audit"),
    ("POST", "/v1/audit/key"),
    ("POST", "/v1/audit/rebuild"),
    ("GET", "/v1/audit/replay"),
    ("GET", "/v1/export"),
    ("GET", "/v1/backup"),
    ("GET", "/v1/runs/{run}/audit-log"),
    ("GET", "/v1/runs/{run}/receipt"),
    ("GET", "/v1/runs"),
    ("POST", "/v1/runs"),
    ("POST", "/v1/runs:import"),
    ("GET", "/v1/runs/{run}"),
    ("GET", "/v1/runs/{run}/events"),
    ("GET", "/v1/runs/{run}/metrics"),
    ("GET", "/v1/runs/{run}/rollouts"),
    ("GET", "/v1/runs/{run}/series"),
    ("GET", "/v1/runs/{run}/logs"),
    ("GET", "/v1/runs/{run}/snapshots"),
    ("POST", "/v1/runs/{run}:cancel"),
    ("POST", "/v1/runs/{run}:pause"),
    ("POST", "/v1/runs/{run}:resume"),
    ("POST", "/v1/runs/{run}:sweep"),
    ("POST", "/v1/runs/{run}/attempts/1/reports"),
    ("POST", "/v1/runs/{run}/preparations/1/reports"),
    ("GET", "/v1/snapshots/{run}"),
    ("POST", "/v1/snapshots/{run}:pin"),
    ("POST", "/v1/snapshots/{run}:unpin"),
    ("GET", "/v1/runs/{run}/ancestry"),
    ("GET", "/v1/runs/{run}/branches"),
    ("GET", "/v1/runs/{run}/compare"),
    ("GET", "/v1/runs/{run}/engine-config"),
    ("GET", "/v1/runs/{run}/hparams"),
    ("GET", "/v1/runs/{run}/line"),
    ("GET", "/v1/runs/{run}/metrics/buckets"),
    ("GET", "/v1/runs/{run}/metrics/file"),
    ("GET", "/v1/runs/{run}/tensorboard"),
    ("GET", "/v1/runs/{run}/tree"),
    ("POST", "/v1/runs/{run}:grafana"),
    ("POST", "/v1/runs/{run}:annotate"),
    ("POST", "/v1/runs/{run}:branch"),
    ("POST", "/v1/datasets:check"),
    ("POST", "/v1/datasets"),
    ("GET", "/v1/datasets"),
    ("GET", "/v1/datasets/support"),
    ("GET", "/v1/sql"),
    ("POST", "/v1/sql"),
    ("POST", "/v1/sql:publish"),
    ("GET", "/v1/whoami"),
    ("GET", "/v1/capacity"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/tokens/ana:revoke"),
]


@pytest.mark.parametrize(("method", "path"), QUERIES)
def test_a_name_in_a_query_that_a_route_does_not_know_is_refused(
    api: Api, method: str, path: str
) -> None:
    """I26: by name, with those that are known, and before anything is done."""
    run_id = api.started()
    position = api.service.ledger.position()
    where = f"{path.format(run=run_id)}?limt=5"
    job = Job(1, "preparation" if "preparations" in path else "attempt")
    token = api.token_of_job(run_id, job) if path.endswith("/reports") else api.token

    answer = api.client.request(method, where, headers=token)

    problem = apis.strict(answer, 400)
    assert problem["type"] == "/problems/bad-request"
    assert problem["detail"] == "limt is not known here"
    assert api.service.ledger.position() == position


def test_every_route_is_asked_for_a_name_that_it_does_not_know(api: Api) -> None:
    """So that no later route is left out of the test above."""
    paths = apis.application(api.service.settings.home).openapi()["paths"]
    routes = {(method.upper(), path) for path in paths for method in paths[path]}

    names = {"{run_id}": "{run}", "{snapshot_id}": "{run}", "{attempt}": "1", "{token}": "ana"}
    names |= {"{preparation}": "1", "{dataset}": "support"}
    for old, new in names.items():
        routes = {(method, path.replace(old, new)) for method, path in routes}
    assert routes == set(QUERIES)


def test_what_routes_know_is_worked_out_before_anybody_asks(api: Api) -> None:
    """Threads that needed it first, after a restart under load, would make it all at once."""
    app = api.client.app  # type: ignore[attr-defined]

    assert app.openapi_schema is not None


def test_a_hint_names_what_may_be_asked(api: Api) -> None:
    """I26."""
    problem = api.get("/v1/runs", 400, limt=5)

    assert problem["hint"] == "known here are phase, project, limit, before, asOf"
    assert api.get("/healthz", 400, x=1)["hint"] == "nothing may stand after the ?"


def test_a_price_book_with_a_fault_is_said_and_hinders_nothing(tmp_path: Path) -> None:
    """I22: one sentence that names the line or the field; the server is ready all the same."""

    def check() -> tuple[bool, str]:
        info = api.get("/v1/info")
        assert info["ready"] is True
        (found,) = (each for each in info["checks"] if each["name"] == "price book")
        return found["ok"], found["detail"]

    book = tmp_path / "prices.toml"
    with apis.api(tmp_path) as api:
        without = check()
        book.write_text("[[prices]]\nprofile = cpu")
        line = check()
        book.write_text('[[prices]]\nprofile = "cpu"\ncurrency = "EUR"\nfrom = 2026-01-01')
        field = check()
        run_id = api.started()
        api.deliver(run_id, [apis.COMPLETED], exit=EXIT)
        unpaid = api.get(f"/v1/runs/{run_id}")["cost"]["money"]
        book.write_text(book.read_text() + "\nperHour = 3600")
        mended = check()
        paid = api.get(f"/v1/runs/{run_id}")["cost"]

    assert without == (True, "works")
    assert line == (False, "prices.toml: Invalid value (at line 2, column 11)")
    assert field == (False, "prices.toml: price 1, perHour is missing")
    assert unpaid is None
    assert mended == (True, "works")
    assert paid["money"]["amount"] == pytest.approx(paid["deviceSeconds"])
    assert (paid["money"]["currency"], paid["money"]["profile"]) == ("EUR", "cpu")


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
        warehouse, end = api.service.warehouse, api.service.ledger.position()
        eventually(lambda: warehouse.position() == end, "the other one has come to the end")

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
        api.post("/v1/sql:publish")  # the next copy is then one of what was edited

        with api.service._database.write() as connection:
            connection.execute("UPDATE document SET state = replace(state, 'rows.jsonl', 'others')")
        with api.service.warehouse.read() as cursor:
            cursor.execute("UPDATE metric SET loss = 0.5 WHERE step = 1")
        api.service.publisher._published = -1
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
        ("projectionDiffers", "published copy"),
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
    modules = (runs, events, metrics, logs, snapshots, reports, server)
    routes = [route for module in modules for route in module.router.routes]

    awaited = {
        route.endpoint.__name__
        for route in routes
        if isinstance(route, APIRoute) and inspect.iscoroutinefunction(route.endpoint)
    }

    assert awaited == {"read_events", "read_logs", "deliver", "deliver_of_preparation", "health"}


def test_the_event_loop_is_never_held_up(api: Api) -> None:
    """style.md: SQLite and DuckDB block, so that they are called elsewhere."""
    run_id = api.started()
    lines = ledgers.step_lines(1, 9)

    with blockbuster_ctx(["api", "ledger", "projections", "engine.dispatch"]):
        taken = api.deliver(run_id, lines)
        api.save(run_id, 9, line=10)
        api.deliver(run_id, [apis.COMPLETED], first=11, exit=EXIT)
        text = api.events(run_id, follow="true")
        api.get(f"/v1/runs/{run_id}/metrics")
        api.logs(run_id, follow="true", tail=3)
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
