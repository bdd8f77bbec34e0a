"""Links to Grafana: what they show, whom they let in and until when, and what is refused."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from api.settings import Settings
from projections.documents import timing
from tests import apis, grafana
from tests.apis import COMPLETED, EXIT, Api
from tests.grafana import Door

AT = datetime(2026, 11, 29, 18, 0, 0, 250_000, tzinfo=UTC)
DASHBOARDS = {"research": "ab12cd", "shop": "x y"}


class Place(NamedTuple):
    """A server whose clock stands still, and the Grafana that knows its key."""

    api: Api
    door: Door
    home: Path

    def link(self, run_id: str, project: str = "research", **more: Any) -> Any:
        body = {"platformProject": project} | more
        return self.api.post(f"/v1/runs/{run_id}:grafana", body)

    def refused(self, run_id: str, status: int, **body: Any) -> Any:
        return self.api.post(f"/v1/runs/{run_id}:grafana", body, status)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("home")
    door = Door(grafana.write_key(home / "grafana.key"), lambda: AT)
    with grafana.opened(door):
        settings = {"grafana_url": f"{door.url}/grafana/", "grafana_dashboards": DASHBOARDS}
        with apis.api(home, grafana_minutes=90, **settings) as api:
            api.service.grafana = replace(api.service.grafana, clock=lambda: AT)
            yield Place(api, door, home)


def shown(url: str) -> Any:
    """What Grafana answers to somebody who opens the link."""
    answer = httpx2.get(url)
    return answer.json() | {"status": answer.status_code}


def millis(moment: str) -> str:
    return str(timing.millis(datetime.fromisoformat(moment)))


def test_a_link_shows_a_run_on_the_dashboard_of_the_project(place: Place) -> None:
    """S109, S110: to now while it trains; what it shows depends on nobody's being logged in."""
    run_id = place.api.started()

    said = place.link(run_id)

    assert said == {
        "runId": run_id,
        "platformProject": "research",
        "attempt": None,
        "url": said["url"],
        "expiresAt": "2026-11-29T19:30:00Z",
    }
    submitted = place.api.get(f"/v1/runs/{run_id}")["submittedAt"]
    assert shown(said["url"]) == {
        "status": 200,
        "path": "/grafana/d/ab12cd",
        "from": millis(submitted),
        "to": "now",
        "var-project": "research",
        "var-run": run_id,
        "who": {
            "login": "trainledger-research",
            "role": "Viewer",
            "organisation": "Research",
        },
    }


def test_the_link_of_a_run_that_has_ended_goes_to_its_end(place: Place) -> None:
    """S110: start to end, in milliseconds; by a beginning of the id too."""
    run_id = place.api.started()
    place.api.deliver(run_id, [COMPLETED], exit=EXIT)
    timing_of = place.api.get(f"/v1/runs/{run_id}")["timing"]

    seen = shown(place.link(run_id[:8])["url"])

    assert timing_of["endedAt"] is not None
    assert (seen["from"], seen["to"]) == (
        millis(timing_of["startedAt"]),
        millis(timing_of["endedAt"]),
    )
    assert seen["var-run"] == run_id


def test_a_run_that_is_paused_has_not_ended_and_its_link_goes_to_now(place: Place) -> None:
    """S110."""
    run_id = place.api.started()
    place.api.save(run_id, 1, line=1)
    place.api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "latest"}, 202)
    place.api.deliver(run_id, first=2, exit=EXIT | {"code": 143})
    assert place.api.get(f"/v1/runs/{run_id}")["phase"] == "PAUSED"

    assert shown(place.link(run_id)["url"])["to"] == "now"


def test_a_history_without_times_leaves_the_time_range_to_the_dashboard(place: Place) -> None:
    """S110: nothing is invented."""
    record = place.api.get(f"/v1/runs/{place.api.started()}")
    untimed = record | {"timing": record["timing"] | {"startedAt": None, "endedAt": None}}

    url = place.api.service.grafana.link(untimed, project="research", attempt=None).url

    assert {"from", "to"} & parse_qs(urlsplit(url).query).keys() == set()


def test_an_attempt_is_chosen_by_its_number_and_else_by_the_dashboard(place: Place) -> None:
    """S113: the parameter is absent unless an attempt is named, and the attempt must be there."""
    run_id = place.api.started()
    place.api.save(run_id, 1, line=1)
    place.api.deliver(run_id, first=2, exit=apis.KILLED)
    place.api.opened_again(run_id)

    second, unset = place.link(run_id, attempt=2), place.link(run_id)
    problem = place.refused(run_id, 404, platformProject="research", attempt=3)

    assert (second["attempt"], shown(second["url"])["var-attempt"]) == (2, "2")
    assert "var-attempt" not in shown(unset["url"])
    assert problem["type"] == "/problems/attempt-not-found"
    assert problem["detail"] == f"run {run_id} has no attempt 3; it has 1 to 2"


def test_a_link_lets_in_until_it_expires_and_no_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S111: 90 minutes here; Grafana adds a minute for clocks that differ."""
    url = place.link(place.api.started())["url"]
    limit = timedelta(minutes=91)

    def at(moment: datetime) -> int:
        monkeypatch.setattr(place.door, "clock", lambda: moment)
        return int(shown(url)["status"])

    ends = AT.replace(microsecond=0) + limit
    assert [at(ends), at(ends + timedelta(seconds=1))] == [200, 401]


def test_a_token_is_of_one_project_and_cannot_be_turned_into_that_of_another(place: Place) -> None:
    """S111: the signature covers the project, the role and the expiry."""
    run_id = place.api.started()
    of_shop = place.link(run_id, "shop")["url"]
    token = parse_qs(urlsplit(of_shop).query)["auth_token"][0]
    head, _, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    forged = jwt.encode(claims | {"project": "research", "role": "Admin"}, "k" * 32, "HS256")

    assert shown(of_shop)["path"] == "/grafana/d/x%20y"
    assert shown(of_shop)["who"] == {
        "login": "trainledger-shop",
        "role": "Viewer",
        "organisation": "The shop",
    }
    mixed = ".".join([head, forged.split(".")[1], signature])
    for each in (mixed, forged, ""):
        assert shown(of_shop.replace(token, each))["status"] == 401


def test_the_answer_with_a_token_is_kept_by_nobody(place: Place) -> None:
    """S111: neither on the way, nor in the ledger."""
    run_id = place.api.started()
    path = f"/v1/runs/{run_id}:grafana"
    position = place.api.service.ledger.position()
    answer = place.api.client.post(
        path, json={"platformProject": "research"}, headers=place.api.token
    )

    assert answer.headers["cache-control"] == "no-store"
    since = place.api.service.ledger.read_stored(position, 100)
    assert b"auth_token" not in b"".join(each.state for each in since)


@pytest.mark.parametrize(
    ("body", "status", "slug", "sentence"),
    [
        (
            {"platformProject": "x"},
            404,
            "platform-project-not-found",
            "the platform project 'x' has no dashboard here; there are research, shop",
        ),
        ({}, 400, "bad-request", "platformProject: Field required"),
        ({"platformProject": "shop", "atempt": 1}, 400, "bad-request", "atempt is not known here"),
    ],
)
def test_what_cannot_be_linked_is_named(
    place: Place, body: dict[str, Any], status: int, slug: str, sentence: str
) -> None:
    """S112, I26."""
    problem = place.refused(place.api.started(), status, **body)

    assert (problem["type"], problem["detail"]) == (f"/problems/{slug}", sentence)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "this server makes no links to Grafana: its setting grafana_url is not set"),
        (
            {"grafana_url": "http://g"},
            "this server makes no links to Grafana: its setting grafana_dashboards is not set",
        ),
        (
            {"grafana_url": "http://g", "grafana_dashboards": DASHBOARDS},
            "the file grafana.key of the server's home is not there",
        ),
    ],
)
def test_a_server_without_grafana_says_what_is_missing(
    place: Place, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], sentence: str
) -> None:
    """S109, I26: one sentence, and where it says how to set it up."""
    links = replace(
        place.api.service.grafana,
        settings=Settings(home=place.home, **settings),
        key=place.home / "none" / "grafana.key",
    )
    monkeypatch.setattr(place.api.service, "grafana", links)

    problem = place.refused(place.api.started(), 501, platformProject="research")

    assert problem["type"] == "/problems/grafana-not-set-up"
    assert problem["detail"] == sentence
    assert problem["hint"] == "docs/grafana.md says how its operator sets it up"


def test_a_key_of_another_kind_is_named_and_so_is_a_missing_package(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I26: nothing internal in either sentence."""
    run_id, service = place.api.started(), place.api.service
    (tmp_path / "nonsense").write_text("no key")
    grafana.write_key(tmp_path / "other", ec.SECP384R1())
    details = []
    for name in ("other", "nonsense"):
        links = replace(service.grafana, key=tmp_path / name)
        monkeypatch.setattr(service, "grafana", links)
        details.append(place.refused(run_id, 501, platformProject="shop")["detail"])
    monkeypatch.setitem(sys.modules, "jwt", None)
    missing = place.refused(run_id, 501, platformProject="shop")

    assert details == [
        f"the file {name} of the server's home holds no private key of the curve P-256 without a "
        "password"
        for name in ("other", "nonsense")
    ]
    assert missing["detail"] == "the package PyJWT is not installed beside the server"
    assert missing["hint"].startswith("install trainledger[grafana] where the server runs")


def test_a_reader_may_have_a_link_and_a_worker_may_not(place: Place) -> None:
    """I24: docs/access.md says why."""
    run_id = place.api.started()
    path, body = f"/v1/runs/{run_id}:grafana", {"platformProject": "shop"}

    def asked(header: dict[str, str]) -> int:
        return place.api.client.post(path, json=body, headers=header).status_code

    reader, worker = place.api.token_for("rita", "reader"), place.api.token_of(run_id)
    assert [asked(reader), asked(worker), asked({})] == [200, 403, 401]


@pytest.mark.parametrize("url", ["grafana.example", "ftp://g", "http://", "http://g/?x=1"])
def test_an_address_that_no_browser_could_open_is_refused_at_the_start(
    tmp_path: Path, url: str
) -> None:
    """style.md, settings: a slip is noticed at once."""
    with pytest.raises(ValueError, match="expected http:// or https:// and a host"):
        Settings(home=tmp_path, grafana_url=url)


def test_dashboards_are_said_in_the_environment_or_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/grafana.md: the same projects either way."""
    monkeypatch.setenv("TRAINLEDGER_HOME", str(tmp_path))
    (tmp_path / "trainledger.toml").write_text('[grafana_dashboards]\nresearch = "a"\n')
    of_file = Settings().grafana_dashboards
    monkeypatch.setenv("TRAINLEDGER_GRAFANA_DASHBOARDS", json.dumps({"shop": "b"}))
    of_both = Settings().grafana_dashboards

    assert of_file == {"research": "a"}
    assert of_both == {"research": "a", "shop": "b"}
