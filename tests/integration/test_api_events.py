"""The events of a run as a stream: whole, in order, resumable, and over when the run is."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api.routes import events as route
from ledger.events import Job
from ledger.ledger import Ledger
from tests import apis, ledgers
from tests.apis import Api
from tests.product import eventually

SSE = "text/event-stream"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.listening(tmp_path_factory.mktemp("home")) as server:
        yield server


def finished(ledger: Ledger, steps: int = 3) -> str:
    run_id = ledgers.started(ledger)
    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, steps))
    ledgers.close(ledger, run_id)
    return run_id


def parsed(text: str) -> list[dict[str, Any]]:
    return [apis.loads(line) for line in text.splitlines() if line]


def messages(text: str) -> list[dict[str, str]]:
    """Server-sent events as a browser reads them; comments are skipped."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def positions(ledger: Ledger, run_id: str) -> list[int]:
    return [each.position for each in ledger.read_run(run_id, 0, 100_000)]


@contextmanager
def following(api: Api, run_id: str, **headers: str) -> Iterator[httpx2.Response]:
    """An open stream of a run that goes on."""
    path = f"/v1/runs/{run_id}/events?follow=true"
    with api.client.stream("GET", path, headers=api.token | headers) as answer:
        assert answer.status_code == 200
        yield answer


def test_every_line_is_one_event_in_the_order_of_the_ledger(api: Api) -> None:
    """S51: every line parses alone; S52: exactly one terminal event, and it is the last."""
    run_id = finished(api.service.ledger)

    events = parsed(api.events(run_id))

    assert [event["kind"] for event in events] == [
        "runSubmitted",
        "attemptOpened",
        "phaseChanged",
        "jobStarted",
        "phaseChanged",
        "phaseChanged",
        "stepReported",
        "stepReported",
        "stepReported",
        "reportsClosed",
        "attemptClosed",
        "runCompleted",
    ]
    assert [event["position"] for event in events] == positions(api.service.ledger, run_id)
    assert {event["runId"] for event in events} == {run_id}
    assert [event for event in events if event.get("terminal")] == events[-1:]
    assert events[-1]["phase"] == "COMPLETED"
    step = events[6]
    assert (step["attempt"], step["step"], step["measured"]) == (1, 1, {"loss": 1.0})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", step["at"])


def test_a_failed_run_ends_its_stream_with_the_reason(api: Api) -> None:
    """S52."""
    run_id = api.started(execution={"maxAttempts": 1})
    api.deliver(run_id, exit=apis.KILLED)

    last = parsed(api.events(run_id, follow="true"))[-1]

    assert (last["kind"], last["terminal"], last["phase"]) == ("runFailed", True, "FAILED")
    assert last["failure"] == {
        "code": "vanished",
        "class": "infrastructure",
        "reason": "the training job stopped before it finished",
        "advice": "Start the run again.",
    }


def test_a_stream_ends_with_the_run_whatever_becomes_of_its_snapshots(api: Api) -> None:
    """S52, I10: who follows hears the end last; the whole history has more."""
    run_id = api.started()
    api.deliver(run_id, ledgers.step_lines(1, 1))
    snapshot_id = api.save(run_id, 1, line=2)
    api.deliver(run_id, [apis.COMPLETED], first=3, exit=apis.EXIT)
    api.post(f"/v1/snapshots/{snapshot_id}:pin")

    followed = parsed(api.events(run_id, follow="true"))
    history = parsed(api.events(run_id))

    assert followed[-1]["terminal"] is True
    assert history == [*followed, history[-1]]
    assert history[-1]["kind"] == "snapshotPinned"
    later = api.events(run_id, after=followed[-1]["position"], follow="true")
    assert parsed(later) == history[-1:]


def test_nothing_secret_or_of_storage_is_told(api: Api) -> None:
    """Decision 3: digests of tokens are for auditors, and streams are no names of the wire."""
    text = api.events(finished(api.service.ledger))

    for name in ("token", "originator", "timestamp", "principal_sha", "sha256"):
        assert name not in text.lower()


def test_a_stream_goes_on_after_any_position(api: Api) -> None:
    """S59: nothing is lost and nothing doubled, wherever it broke off."""
    run_id = finished(api.service.ledger)
    whole = parsed(api.events(run_id))

    for n, event in enumerate(whole):
        rest = parsed(api.events(run_id, after=event["position"], follow="true"))
        assert rest == whole[n + 1 :]
    assert api.events(run_id, after=10**9) == ""


def test_server_sent_events_carry_their_position_and_kind(api: Api) -> None:
    """design.md, HTTP: ``id:`` is the ledger position."""
    run_id = finished(api.service.ledger)
    whole = parsed(api.events(run_id))

    sent = messages(api.events(run_id, accept=f"{SSE}, */*"))

    assert [apis.loads(each["data"]) for each in sent] == whole
    assert [int(each["id"]) for each in sent] == [event["position"] for event in whole]
    assert [each["event"] for each in sent[:-1]] == [event["kind"] for event in whole[:-1]]
    assert sent[-1]["event"] == "terminal"


def test_a_browser_resumes_by_the_last_id_that_it_saw(api: Api) -> None:
    """C51: ids come from the ledger, so that they are good after a restart as well."""
    run_id = finished(api.service.ledger)
    whole = messages(api.events(run_id, accept=SSE))
    headers = api.token | {"Accept": SSE, "Last-Event-ID": whole[4]["id"]}

    answer = api.client.get(f"/v1/runs/{run_id}/events?after=1", headers=headers)

    assert messages(answer.text) == whole[5:]


@pytest.mark.parametrize("accept", ["", SSE])
def test_proxies_are_told_not_to_hold_a_stream_back(api: Api, accept: str) -> None:
    """C51."""
    run_id = finished(api.service.ledger)

    answer = api.client.get(
        f"/v1/runs/{run_id}/events", headers=api.token | {"Accept": accept or "*/*"}
    )

    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"].startswith(accept or "application/jsonl")
    assert "content-length" not in answer.headers


@pytest.mark.parametrize("after", [-1, 10**30, "x"])
def test_a_position_that_cannot_be_is_refused(api: Api, after: object) -> None:
    run_id = api.started()

    problem = api.get(f"/v1/runs/{run_id}/events", 400, after=after)

    assert problem["detail"].startswith("after: Input should be")
    headers = api.token | {"Last-Event-ID": str(after)}
    apis.strict(api.client.get(f"/v1/runs/{run_id}/events", headers=headers), 400)


def test_twenty_thousand_events_come_whole(api: Api) -> None:
    """S51, U6: page after page."""
    run_id = api.started()
    for first in range(1, 20_000, 2_000):
        lines = ledgers.step_lines(first, first + 1_999)
        api.service.ledger.record(run_id, Job(1), first=first, lines=lines)

    events = parsed(api.events(run_id))

    steps = [event["step"] for event in events if event["kind"] == "stepReported"]
    assert steps == list(range(1, 20_001))
    assert [event["position"] for event in events] == positions(api.service.ledger, run_id)


def test_numbers_that_are_not_finite_are_strings_in_a_stream(api: Api) -> None:
    """U11, C35."""
    run_id = api.started()
    line = '{"kind": "step", "step": 1, "measured": {"loss": NaN, "a": "Infinity", "b": -Infinity}}'
    api.deliver(run_id, [line])

    for accept in ("", SSE):
        text = api.events(run_id, accept=accept)
        event = apis.loads(messages(text)[-1]["data"]) if accept else parsed(text)[-1]
        assert event["measured"] == {"loss": "NaN", "a": "Infinity", "b": "-Infinity"}


def test_a_stream_that_cannot_go_on_says_why_in_its_last_line(tmp_path: Path) -> None:
    """style.md: once a stream has begun, an error is its last line."""
    with apis.api(tmp_path) as api:
        run_id = finished(api.service.ledger, steps=2 * route.PAGE)
        with api.service._database.write() as connection:
            connection.execute("DROP TRIGGER stored_event_never_changes")
            connection.execute(
                "UPDATE stored_event SET topic = 'run.restored.v1' WHERE version = ?"
                " AND topic = 'run.step_reported.v1'",
                [2 * route.PAGE - 10],
            )
        lines = parsed(api.events(run_id, follow="true"))
        sent = messages(api.events(run_id, accept=SSE))

    assert lines[-1]["type"] == "/problems/ledger-corrupt"
    assert lines[-1]["hint"] == "trainledger audit verify says what else is damaged"
    assert all(line.get("position") for line in lines[:-1])
    assert len(lines) > route.PAGE
    assert sent[-1]["event"] == "problem"
    assert apis.loads(sent[-1]["data"]) == lines[-1]


def test_an_event_is_there_at_once_and_the_end_ends_the_stream(live: Api) -> None:
    """C51: first event in less than a second; S52."""
    run_id = live.started()
    known = len(positions(live.service.ledger, run_id))

    with following(live, run_id) as answer:
        lines = answer.iter_lines()
        before = [apis.loads(next(lines)) for _ in range(known)]
        asked = time.monotonic()
        live.service.ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 1))
        came = [apis.loads(next(lines)) for _ in range(2)]
        waited = time.monotonic() - asked
        ledgers.close(live.service.ledger, run_id)
        rest = [apis.loads(line) for line in lines if line]

    assert before[-1]["phase"] == "PREPARING"
    assert [event["kind"] for event in came] == ["phaseChanged", "stepReported"]
    assert waited < 1.0
    assert [event["kind"] for event in rest] == ["reportsClosed", "attemptClosed", "runCompleted"]


@pytest.mark.parametrize(("accept", "beat"), [("*/*", ""), (SSE, ":")])
def test_a_silent_stream_shows_that_it_is_alive(
    live: Api, monkeypatch: pytest.MonkeyPatch, accept: str, beat: str
) -> None:
    """C51: heartbeat."""
    monkeypatch.setattr(route, "HEARTBEAT_SECONDS", 0.05)
    run_id = live.started()

    with following(live, run_id, Accept=accept) as answer:
        lines = answer.iter_lines()
        beats = islice((line for line in lines if line == beat), 3)
        assert list(beats) == [beat] * 3

    ledgers.close(live.service.ledger, run_id)


def test_nothing_is_lost_while_it_is_being_written(live: Api) -> None:
    """C51, C55: three followers, each sees every event once and in order."""
    run_id = live.started()
    told: list[list[int]] = [[], [], []]

    def follow(into: list[int]) -> None:
        with following(live, run_id) as answer:
            into += [apis.loads(line)["position"] for line in answer.iter_lines() if line]

    followers = [threading.Thread(target=follow, args=(into,)) for into in told]
    for follower in followers:
        follower.start()
    for step in range(1, 301):
        live.service.ledger.record(run_id, Job(1), first=step, lines=ledgers.step_lines(step, step))
    ledgers.close(live.service.ledger, run_id)
    for follower in followers:
        follower.join(timeout=20)

    assert told == [positions(live.service.ledger, run_id)] * 3


def test_a_follower_that_went_away_is_forgotten(live: Api) -> None:
    """C51: a dead follower's task is gone."""
    run_id = live.started()

    def waiting() -> int:
        grown = live.service.hub._grown
        return len(grown._waiters) if grown is not None else 0

    eventually(lambda: waiting() == 0, "earlier followers are gone")
    with following(live, run_id) as answer:
        lines = answer.iter_lines()
        next(lines)
        eventually(lambda: waiting() == 1, "the follower waits")

    assert eventually(lambda: waiting() == 0, "nobody waits any more")
    ledgers.close(live.service.ledger, run_id)


def test_a_follower_that_does_not_read_holds_nobody_up(live: Api) -> None:
    """C51."""
    run_id = live.started()
    long = ["x" * 900_000] * 20  # more than any buffer on the way holds

    with following(live, run_id):  # it never reads
        live.service.ledger.record(run_id, Job(1), first=1, lines=long)
        ledgers.close(live.service.ledger, run_id)
        with following(live, run_id) as answer:
            events = [apis.loads(line) for line in answer.iter_lines() if line]

    assert events[-1]["kind"] == "runCompleted"
    assert len(events) == len(positions(live.service.ledger, run_id))


def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    """C51: it does not wait for those who follow; they go on from where they were."""
    with apis.listening(tmp_path) as live:
        run_id = live.started()
        with following(live, run_id) as answer:
            lines = answer.iter_lines()
            first = apis.loads(next(lines))
            stopped = time.monotonic()
            live.service.hub.stop()
            rest = [apis.loads(line) for line in lines if line]
            waited = time.monotonic() - stopped
        told = [first, *rest]
        ledgers.close(live.service.ledger, run_id)

    with apis.api(tmp_path) as api:
        told += parsed(api.events(run_id, after=told[-1]["position"], follow="true"))
        assert [event["position"] for event in told] == positions(api.service.ledger, run_id)
    assert waited < 5
    assert told[-1]["terminal"] is True


NGINX = """\
daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen unix:{folder}/socket; location / {{ proxy_pass {url}; }} }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_a_proxy_with_its_own_defaults_hands_each_event_on_at_once(
    live: Api, tmp_path: Path
) -> None:
    """C51: behind nginx, which buffers unless it is told not to."""
    run_id = live.started()
    text = NGINX.format(folder=tmp_path, url=str(live.client.base_url).rstrip("/"))
    (tmp_path / "conf").write_text(text)
    proxy = subprocess.Popen(["nginx", "-c", tmp_path / "conf", "-e", tmp_path / "error.log"])
    try:
        eventually((tmp_path / "socket").exists, "nginx listens")
        transport = httpx2.HTTPTransport(uds=str(tmp_path / "socket"))
        client = httpx2.Client(transport=transport, base_url="http://localhost", timeout=20)
        with client, following(Api(client, live.service), run_id, Accept=SSE) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("id: ")
            asked = time.monotonic()
            ledgers.close(live.service.ledger, run_id)
            rest = list(lines)
            waited = time.monotonic() - asked
    finally:
        proxy.terminate()
        proxy.wait()

    assert rest[-3] == "event: terminal"
    assert waited < 1.0
