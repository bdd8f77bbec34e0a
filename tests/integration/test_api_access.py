"""What a request has to bring, and what it hears without it: problem documents only."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.auth import token_file
from tests import apis, ledgers
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer \xff", "Bearer x {token}"],
)
def test_nothing_is_told_without_the_token(api: Api, header: str) -> None:
    """design.md, HTTP: bearer tokens; test_api_roles.py has every route."""
    said = header.format(token=api.service.token).encode("latin-1")
    headers = [(b"Authorization", said)] if header else []

    answer = api.client.get("/v1/info", headers=headers)

    assert apis.strict(answer, 401)["type"] == "/problems/unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_plan_is_not_taken_without_the_token(api: Api) -> None:
    position = api.service.ledger.position()

    answer = api.client.post("/v1/runs", json={"plan": ledgers.DOCUMENT})

    apis.strict(answer, 401)
    assert api.service.ledger.position() == position


def test_the_token_is_for_its_owner_only(api: Api) -> None:
    """The local default: an owner-only file that the command line reads by itself."""
    for name in ("token", "secret"):
        file = api.service.settings.home / name
        assert file.stat().st_mode & 0o777 == 0o600
    assert (api.service.settings.home / "token").read_text().strip() == api.service.token


def test_the_token_stays_when_the_server_starts_again(tmp_path: Path) -> None:
    tokens = [token_file(tmp_path / "token") for _ in range(2)]

    assert tokens[0] == tokens[1]
    assert len(tokens[0]) > 40


def test_only_the_attempt_itself_reports(api: Api) -> None:
    """design.md, HTTP: a worker token is good for one attempt only."""
    run_id, other = api.started(), api.started()
    body = {"first": 1, "lines": ledgers.step_lines(1, 1), "runner": apis.RUNNER}
    path = f"/v1/runs/{run_id}/attempts/1/reports"
    headers = {403: [api.token, api.token_of(other)], 401: [api.token_of(run_id, 2), {}]}
    position = api.service.ledger.position()

    for status, refused in headers.items():
        for each in refused:
            apis.strict(api.client.post(path, json=body, headers=each), status)

    assert api.service.ledger.position() == position


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "[::2]:80", "[", ""]
)
def test_a_page_led_here_by_a_false_name_is_refused(api: Api, host: str) -> None:
    """design.md, HTTP: Host is checked."""
    answer = api.client.get("/v1/info", headers=api.token | {"Host": host})

    assert apis.strict(answer, 400)["type"] == "/problems/foreign-host"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7", "127.0.0.1:8000", "[::1]", "[::1]:9"])
def test_every_name_of_this_machine_is_answered(api: Api, host: str) -> None:
    answer = api.client.get("/healthz", headers={"Host": host})

    assert apis.strict(answer, 200) == {"ok": True}


def test_a_server_for_others_answers_to_any_name(tmp_path: Path) -> None:
    with apis.api(tmp_path, host="0.0.0.0") as api:
        answer = api.client.get("/healthz", headers={"Host": "training.example"})

    assert apis.strict(answer, 200) == {"ok": True}


@pytest.mark.parametrize(
    ("method", "path", "status", "slug"),
    [
        ("GET", "/nix", 404, "no-such-page"),
        ("GET", "/docs", 404, "no-such-page"),  # it would load scripts from elsewhere
        ("GET", "/openapi.json", 404, "no-such-page"),
        ("DELETE", "/v1/runs", 405, "not-allowed"),
        ("PUT", "/v1/runs/0123456789abcdef", 405, "not-allowed"),
    ],
)
def test_what_is_not_there_is_a_problem_too(
    api: Api, method: str, path: str, status: int, slug: str
) -> None:
    """I26: a reason and a hint."""
    problem = apis.strict(api.client.request(method, path, headers=api.token), status)

    assert problem["type"] == f"/problems/{slug}"
    assert problem["instance"] == path


def test_a_failure_inside_is_told_without_its_text(tmp_path: Path) -> None:
    """U11, style.md: internals never leave the server."""
    with apis.api(tmp_path) as api:
        del api.service.pool

        problem = api.get("/v1/info", 500)

    assert problem["type"] == "/problems/internal"
    assert problem["detail"] == "the server failed"
    assert "pool" not in str(problem)


def test_a_table_that_cannot_be_read_is_a_problem_without_its_name(tmp_path: Path) -> None:
    """U6: 503, whether the database refuses a write or a read."""
    with apis.api(tmp_path) as api:
        run_id = api.started()
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            connection.execute("DROP TABLE document")
        connection.close()

        problem = api.get(f"/v1/runs/{run_id}", 503)

    assert problem["type"] == "/problems/storage"
    assert "table" not in str(problem)


def test_a_database_that_cannot_be_written_is_a_problem_for_later(tmp_path: Path) -> None:
    """U6: 503, and the same submission may be sent again."""
    body = {"plan": ledgers.DOCUMENT, "submissionId": "t"}
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        stranger = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        stranger.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON stored_event BEGIN SELECT broken(); END"
        )
        problem = api.post("/v1/runs", body, 503)
        stranger.execute("DROP TRIGGER broken")
        stranger.close()
        made = api.post("/v1/runs", body, 201)

    assert problem["type"] == "/problems/storage"
    assert "function" not in str(problem)
    assert (made["created"], made["position"]) == (True, 2)
