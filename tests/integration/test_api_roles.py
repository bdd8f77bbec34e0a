"""Who may do what: every route for every role, and tokens from their making to their end."""

import hmac
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.routing import APIRoute

from api.access import NEEDED
from ledger.events import Job
from tests import apis, ledgers
from tests.apis import Api

TABLE = {
    ("GET", "/healthz"): "anybody",
    ("POST", "/v1/runs/{run_id}/attempts/{attempt}/reports"): "worker",
    ("POST", "/v1/runs/{run_id}/preparations/{preparation}/reports"): "preparing",
    # -- looking
    ("GET", "/v1/info"): "reader",
    ("GET", "/v1/capacity"): "reader",
    ("GET", "/v1/whoami"): "reader",
    ("GET", "/v1/runs"): "reader",
    ("GET", "/v1/runs/{run_id}"): "reader",
    ("GET", "/v1/runs/{run_id}/ancestry"): "reader",
    ("GET", "/v1/runs/{run_id}/audit-log"): "reader",
    ("GET", "/v1/runs/{run_id}/branches"): "reader",
    ("GET", "/v1/runs/{run_id}/compare"): "reader",
    ("GET", "/v1/runs/{run_id}/engine-config"): "reader",
    ("GET", "/v1/runs/{run_id}/events"): "reader",
    ("GET", "/v1/runs/{run_id}/hparams"): "reader",
    ("GET", "/v1/runs/{run_id}/line"): "reader",
    ("GET", "/v1/runs/{run_id}/logs"): "reader",
    ("GET", "/v1/runs/{run_id}/metrics"): "reader",
    ("GET", "/v1/runs/{run_id}/rollouts"): "reader",
    ("GET", "/v1/runs/{run_id}/metrics/buckets"): "reader",
    ("GET", "/v1/runs/{run_id}/metrics/file"): "reader",
    ("GET", "/v1/runs/{run_id}/receipt"): "reader",
    ("GET", "/v1/runs/{run_id}/series"): "reader",
    ("GET", "/v1/runs/{run_id}/snapshots"): "reader",
    ("GET", "/v1/runs/{run_id}/tensorboard"): "reader",
    ("GET", "/v1/runs/{run_id}/tree"): "reader",
    ("GET", "/v1/snapshots/{snapshot_id}"): "reader",
    ("GET", "/v1/sql"): "reader",
    ("POST", "/v1/sql"): "reader",
    ("POST", "/v1/sql:publish"): "reader",
    ("POST", "/v1/audit"): "reader",
    ("POST", "/v1/runs/{run_id}:grafana"): "reader",
    # -- having things trained
    ("POST", "/v1/runs"): "submitter",
    ("POST", "/v1/runs:import"): "submitter",
    ("POST", "/v1/runs/{run_id}:annotate"): "submitter",
    ("POST", "/v1/runs/{run_id}:branch"): "submitter",
    ("POST", "/v1/runs/{run_id}:cancel"): "submitter",
    ("POST", "/v1/runs/{run_id}:pause"): "submitter",
    ("POST", "/v1/runs/{run_id}:resume"): "submitter",
    ("POST", "/v1/snapshots/{snapshot_id}:pin"): "submitter",
    ("POST", "/v1/snapshots/{snapshot_id}:unpin"): "submitter",
    ("POST", "/v1/datasets:check"): "submitter",
    ("POST", "/v1/datasets"): "submitter",
    ("GET", "/v1/datasets"): "reader",
    ("GET", "/v1/datasets/{dataset}"): "reader",
    # -- everything else
    ("POST", "/v1/runs/{run_id}:sweep"): "operator",
    ("POST", "/v1/audit/key"): "operator",
    ("POST", "/v1/audit/rebuild"): "operator",
    ("GET", "/v1/audit/replay"): "operator",
    ("GET", "/v1/backup"): "operator",
    ("GET", "/v1/export"): "operator",
    ("GET", "/v1/tokens"): "operator",
    ("POST", "/v1/tokens"): "operator",
    ("POST", "/v1/tokens/{token}:revoke"): "operator",
}  # the least role that each needs, said here once more so that a slip of the code is one
NOBODY = ("none", "empty", "unknown", "almost", "revoked", "expired", "closed attempt")
KNOWN = {
    "reader": ("user/rita", "reader"),
    "submitter": ("user/sven", "submitter"),
    "operator": ("user/olga", "operator"),
    "home": ("operator", "operator"),
    "this attempt": ("attempt/1", "worker"),
    "another attempt": ("attempt/1", "worker"),
    "this preparation": ("preparation/1", "worker"),
}
LET_IN = {
    "anybody": {*NOBODY, *KNOWN},
    "worker": {"this attempt"},
    "preparing": {"this preparation"},
    "reader": {"reader", "submitter", "operator", "home"},
    "submitter": {"submitter", "operator", "home"},
    "operator": {"operator", "home"},
}


class Place(NamedTuple):
    """A server with a run that trains, and every header that somebody may send to it."""

    api: Api
    run_id: str
    prepared_run: str
    headers: dict[str, dict[str, str]]

    def ask(self, who: str, method: str, path: str) -> Any:
        """What somebody hears at a route; the body, where there should be one, is empty."""
        run_id = self.prepared_run if "{preparation}" in path else self.run_id
        numbers = {"attempt": 1, "preparation": 1}
        named = {"token": "nobody", "dataset": "nix"}
        where = path.format(run_id=run_id, snapshot_id="5" * 64, **named, **numbers)
        return self.api.client.request(method, where, headers=self.headers[who])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with apis.api(tmp_path_factory.mktemp("home")) as api:
        run_id, other, closed = (api.started() for _ in range(3))
        prepared = ledgers.preparing(api.service.ledger)
        ledgers.close(api.service.ledger, closed)
        revoked = api.token_for("gone", "operator")
        api.post("/v1/tokens/gone:revoke")
        home = api.service.token
        yield Place(
            api,
            run_id,
            prepared,
            {
                "none": {},
                "empty": {"Authorization": "Bearer "},
                "unknown": {"Authorization": "Bearer nix"},
                "almost": {"Authorization": f"Bearer {home[:-1]}"},
                "revoked": revoked,
                "expired": api.token_for("late", "operator", seconds=1e-6),
                "closed attempt": api.token_of(closed),
                "reader": api.token_for("rita", "reader"),
                "submitter": api.token_for("sven", "submitter"),
                "operator": api.token_for("olga", "operator"),
                "home": api.token,
                "this attempt": api.token_of(run_id),
                "another attempt": api.token_of(other),
                "this preparation": api.token_of_job(prepared, Job(1, "preparation")),
            },
        )


def test_every_route_is_in_the_table(place: Place) -> None:
    """I24: deny by default; who adds a route says here whom it is for."""
    paths = apis.application(place.api.service.settings.home).openapi()["paths"]

    assert {(method.upper(), path) for path in paths for method in paths[path]} == set(TABLE)


def test_no_route_goes_past_the_question(place: Place) -> None:
    """I24: a mounted folder, or a route that the description leaves out, would be asked nothing."""
    app = apis.application(place.api.service.settings.home)
    routers = [getattr(each, "original_router", None) for each in app.routes]
    routes = [each for router in routers if router for each in router.routes]

    assert None not in routers
    assert all(isinstance(each, APIRoute) and each.include_in_schema for each in routes)
    assert sorted(each.name for each in routes) == sorted(NEEDED)


@pytest.mark.parametrize("who", [*NOBODY, *KNOWN])
@pytest.mark.parametrize(("method", "path"), TABLE)
def test_a_route_lets_those_in_whom_it_is_for(
    place: Place, method: str, path: str, who: str
) -> None:
    """I24: every route for every role; refusals change nothing and say what is needed."""
    needed = TABLE[method, path]
    position = place.api.service.ledger.position()

    answer = place.ask(who, method, path)

    if who in LET_IN[needed]:
        assert answer.status_code not in (401, 403, 500), answer.text
        return
    problem = apis.strict(answer, 401 if who in NOBODY else 403)
    if who in NOBODY:
        assert problem["detail"] == "the request carries no token that is known here and counts"
        assert answer.headers["www-authenticate"] == "Bearer"
    else:
        principal, role = KNOWN[who]
        is_of_job = needed in ("worker", "preparing")
        want = "the runner of that very job" if is_of_job else f"the role {needed}"
        assert problem["detail"].startswith(f"{method} {path} ")
        assert problem["detail"].endswith(f"{want}, and {principal} has the role {role}")
    assert place.api.service.ledger.position() == position


def test_a_route_without_an_entry_is_open_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I24: deny by default."""
    monkeypatch.delitem(NEEDED, "list_runs")
    with apis.api(tmp_path) as api:
        problem = api.get("/v1/runs", 403)
        apis.strict(api.client.get("/v1/runs"), 401)

    assert problem["detail"] == (
        "GET /v1/runs is open to nobody, and operator has the role operator"
    )


def test_what_every_event_says_is_whose_token_it_was(tmp_path: Path) -> None:
    """I24: every event carries the principal, from the submission to the last word."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        sven, rita = api.token_for("sven", "submitter"), api.token_for("rita", "operator")
        made = api.client.post("/v1/runs", json={"plan": ledgers.DOCUMENT}, headers=sven).json()
        run = f"/v1/runs/{made['runId']}"
        api.client.post(f"{run}:annotate", json={"labels": {"a": "b"}}, headers=rita)
        api.client.post(f"{run}:cancel", headers=sven)
        events = api.get(f"{run}/audit-log")["events"]
        receipt = api.get(f"{run}/receipt")

    who = {each["kind"]: each["principal"] for each in events}
    assert who["submissionAccepted"] == who["runSubmitted"] == "user/sven"
    assert who["runAnnotated"] == "user/rita"
    assert who["cancelRequested"] == "user/sven"
    assert {each["principal"] for each in receipt["principals"]} >= {"user/sven", "user/rita"}


def test_a_snapshot_is_given_up_by_who_asked_for_it(tmp_path: Path) -> None:
    """I24: every event carries the principal, a deletion before all others."""
    with apis.api(tmp_path) as api:
        sven, rita = api.token_for("sven", "submitter"), api.token_for("rita", "operator")
        run_id = api.started(execution={"keepTrainingState": 1, "keepWeights": 1})
        first = api.save(run_id, 1, line=1)
        api.client.post(f"/v1/snapshots/{first}:pin", headers=sven)
        api.save(run_id, 2, line=2)
        api.client.post(f"/v1/snapshots/{first}:unpin", headers=sven)
        freed = api.client.post(f"/v1/runs/{run_id}:sweep", headers=rita).json()["freedBytes"]
        events = api.get(f"/v1/runs/{run_id}/audit-log")["events"]

    who = {each["kind"]: each["principal"] for each in events}
    assert freed > 0
    assert who["snapshotPinned"] == who["snapshotUnpinned"] == "user/sven"
    assert (who["snapshotCommitted"], who["snapshotSwept"]) == ("keeper", "user/rita")


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_only_to_who_made_it(tmp_path: Path) -> None:
    """I24, U20: the answer must not be kept by anybody on the way either."""
    with apis.api(tmp_path) as api:
        body = {"name": "ana", "role": "reader", "expiresSeconds": 86_400}
        answer = api.client.post("/v1/tokens", json=body, headers=api.token)
        made = apis.strict(answer, 201)
        (listed,) = api.get("/v1/tokens")["tokens"]
        kept = b"".join(each.state for each in api.service.ledger.read_stored(0, 100))
        header = {"Authorization": f"Bearer {made['token']}"}
        me = apis.strict(api.client.get("/v1/whoami", headers=header), 200)

    secret = made.pop("token")
    assert answer.headers["cache-control"] == "no-store"
    assert listed == made
    assert (made["status"], made["createdBy"], made["revokedAt"]) == ("active", "operator", None)
    assert secret.encode() not in kept
    assert me == {
        "principal": "user/ana",
        "role": "reader",
        "tokenId": made["tokenId"],
        "expiresAt": made["expiresAt"],
    }


def test_who_has_the_token_of_the_home_is_its_operator(tmp_path: Path) -> None:
    """The local default stays: no token has to be made to begin."""
    with apis.api(tmp_path) as api:
        me = api.get("/v1/whoami")

    assert me == {"principal": "operator", "role": "operator", "tokenId": None, "expiresAt": None}


@pytest.mark.parametrize(
    ("body", "status", "slug", "word"),
    [
        ({"name": "a b", "role": "reader"}, 400, "bad-request", "'a b' cannot be the name"),
        ({"name": "taken", "role": "reader"}, 409, "token-name-taken", "named taken is in use"),
        ({"name": "x", "role": "admin"}, 400, "bad-request", "role: Input should be 'reader'"),
        ({"name": "x"}, 400, "bad-request", "role: Field required"),
        ({"role": "reader"}, 400, "bad-request", "name: Field required"),
        ({"name": "x", "role": "reader", "a": 1}, 400, "bad-request", "a is not known here"),
        ({"name": "x", "role": "reader", "expiresSeconds": 0}, 400, "bad-request", "expiresSec"),
        ({"name": "x", "role": "reader", "expiresSeconds": 1e18}, 400, "bad-request", "expiresSec"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused_by_name(
    place: Place, body: dict[str, Any], status: int, slug: str, word: str
) -> None:
    """I26."""
    if slug == "token-name-taken":
        place.api.token_for("taken", "reader")
    position = place.api.service.ledger.position()

    problem = place.api.post("/v1/tokens", body, status)

    assert problem["type"] == f"/problems/{slug}"
    assert word in problem["detail"]
    assert place.api.service.ledger.position() == position


def test_a_token_that_is_not_there_cannot_be_revoked(place: Place) -> None:
    problem = place.api.post("/v1/tokens/nobody:revoke", status=404)

    assert problem["type"] == "/problems/token-not-found"
    assert problem["detail"] == "there is no token 'nobody'"


def test_a_token_and_its_end_outlive_the_server(tmp_path: Path) -> None:
    """I24: what was made and revoked is in the ledger, and a restart reads it again."""
    with apis.api(tmp_path) as api:
        ana, bob = api.token_for("ana", "reader"), api.token_for("bob", "operator")
        api.post("/v1/tokens/bob:revoke")
        before = api.get("/v1/tokens")
    with apis.api(tmp_path) as api:
        apis.strict(api.client.get("/v1/info", headers=ana), 200)
        apis.strict(api.client.get("/v1/info", headers=bob), 401)
        after = api.get("/v1/tokens")

    assert after == before
    assert [(each["name"], each["status"]) for each in after["tokens"]] == [
        ("ana", "active"),
        ("bob", "revoked"),
    ]


def test_an_attempts_token_ends_with_the_attempt(tmp_path: Path) -> None:
    """I24: its last delivery hears that nothing counts any more, and nothing is stored."""
    with apis.api(tmp_path) as api:
        run_id = api.started()
        token = api.token_of(run_id)
        apis.strict(api.client.get("/v1/info", headers=token), 403)
        api.deliver(run_id, [apis.COMPLETED], exit=apis.EXIT)
        position = api.service.ledger.position()

        late = api.deliver(run_id, ledgers.step_lines(1, 1), first=2)

        apis.strict(api.client.get("/v1/info", headers=token), 401)
        assert api.service.ledger.read_run(run_id, position, 10) == []
    assert late["closed"] is True


@pytest.mark.parametrize("number", ["01", "+1", " 1", "\u0661", "1.0", "x", "-1"])
def test_a_number_that_reads_as_another_lets_nobody_in(place: Place, number: str) -> None:
    """U21: whose token it is, is asked with the very number that the route then works on."""
    path = f"/v1/runs/{place.run_id}/attempts/{number}/reports"

    answer = place.api.client.post(path, headers=place.headers["another attempt"])

    apis.strict(answer, 403)


@pytest.mark.parametrize("accept", ["application/jsonl", "text/event-stream"])
def test_a_stream_ends_with_the_token_that_it_was_asked_for_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    """I24: what is revoked counts no more, also where it was let in before; and that at once."""
    monkeypatch.setattr("api.routes.events.HEARTBEAT_SECONDS", 3600.0)
    with apis.listening(tmp_path) as api:
        run_id = api.started()
        header = api.token_for("ana", "reader") | {"Accept": accept}
        path = f"/v1/runs/{run_id}/events?follow=true"
        with api.client.stream("GET", path, headers=header) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            api.post("/v1/tokens/ana:revoke")
            *_, last = (line for line in lines if line)

    assert first
    problem = apis.loads(last.removeprefix("data: "))
    assert (problem["status"], problem["type"]) == (401, "/problems/unauthorized")


def test_a_followed_log_ends_with_its_token(tmp_path: Path) -> None:
    """The same of what a worker prints, when the token expires meanwhile."""
    with apis.listening(tmp_path) as api:
        run_id = api.started()
        header = api.token_for("ana", "reader", seconds=3600)
        clock = api.service.tokens._clock
        path = f"/v1/runs/{run_id}/logs?follow=true"
        with api.client.stream("GET", path, headers=header) as answer:
            assert answer.status_code == 200
            api.service.tokens._clock = lambda: clock() + timedelta(hours=2)
            assert list(answer.iter_lines()) == []


def test_a_program_of_ones_own_is_for_operators_unless_the_server_allows_it(
    tmp_path: Path,
) -> None:
    """I24: it could read the token of the home, and so do what its role does not allow."""
    plan = {"plan": ledgers.DOCUMENT | {"engine": {"command": ["true"]}}}

    def answered(name: str, *, allowed: bool) -> list[int]:
        """What a submitter and the operator of the home hear."""
        with apis.api(tmp_path / name, devices=("cpu:0",), allow_command_engine=allowed) as api:
            headers = [api.token_for("sven", "submitter"), api.token]
            answers = [api.client.post("/v1/runs", json=plan, headers=each) for each in headers]
            details.append(answers[0].json().get("detail"))
            return [each.status_code for each in answers]

    details: list[str] = []
    assert answered("usual", allowed=False) == [422, 201]
    assert answered("open", allowed=True) == [201, 201]
    assert details[0] == (
        "engine.command needs the role operator here, not submitter, unless the server's setting "
        "allow_command_engine is on"
    )


def test_tokens_are_compared_in_constant_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I24: each known token is compared whole, whatever fits and wherever it stands."""
    compared: list[int] = []
    real = hmac.compare_digest

    def counting(one: Any, other: Any) -> bool:
        compared.append(len(one))
        return real(one, other)

    monkeypatch.setattr("ledger.tokens.hmac.compare_digest", counting)
    known = len(place.api.service.tokens.all())
    secret = place.headers["reader"]["Authorization"].removeprefix("Bearer ")

    for each in ("nix", secret):
        compared.clear()
        place.api.service.tokens.find(each)
        assert compared == [64] * known
