"""Commands that ask for one attempt of a run, or for what a restore took back."""

from collections.abc import Iterator

import pytest

from tests.cli_answers import record
from tests.cli_server import RUN, CannedServer, canned_server, here

METRICS = {
    "runId": RUN,
    "position": 9,
    "steps": [{"step": 1, "attempt": 2, "measured": {"loss": 1.5}}],
    "validations": [],
}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def test_the_settings_of_an_attempt_are_asked_for_by_its_number(canned: CannedServer) -> None:
    """U8: with --settings, -o wide or -o json."""
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    shown = here("runs", "get", RUN, "--settings", "--attempt", "2", url=canned.url).stdout
    wide = here("runs", "get", RUN, "-o", "wide", "--attempt", "2", url=canned.url).stdout
    here("runs", "get", RUN, "-o", "json", "--attempt", "2", url=canned.url)

    assert [each.parameters for each in canned.requests] == [{"attempt": ["2"]}] * 3
    assert "Settings of attempt 2 (* stated by the plan)\n" in shown
    assert wide == shown


def test_superseded_metrics_and_those_of_an_attempt_are_asked_for(canned: CannedServer) -> None:
    """U1, I20: and fields one by one, for names that have commas."""
    canned.answer("GET", f"/v1/runs/{RUN}/metrics", METRICS)
    canned.answer("GET", f"/v1/runs/{RUN}", record())
    options = ["--superseded", "--attempt", "2", "--fields", "a,b", "--fields", "loss"]

    done = here("runs", "metrics", RUN, *options, url=canned.url)

    assert canned.requests[0].parameters == {
        "fields": ["a,b", "loss"],
        "superseded": ["true"],
        "attempt": ["2"],
    }
    assert done.stdout.splitlines()[0].split() == ["step", "a", "b", "loss"]
