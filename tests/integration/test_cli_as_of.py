"""``--as-of``: what each command asks for, and what it says of the moment."""

import json
from collections.abc import Iterator

import pytest

from tests.answers import ROUTES
from tests.cli_answers import record
from tests.cli_server import RUN, CannedServer, Request, canned_server, here

PATH = f"/v1/runs/{RUN}"
TIME = "2026-11-29T18:00:00+01:00"
SNAPSHOT = ROUTES["get_snapshot"].example
THEN = {"position": 12345, "at": "2026-11-29T17:00:00.250Z"}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def test_the_detail_says_which_moment_it_is_of(canned: CannedServer) -> None:
    """S1: the position as it can be asked for again."""
    canned.answer("GET", PATH, record(asOf=THEN))

    done = here("runs", "get", RUN, "--as-of", TIME, url=canned.url)

    assert canned.requests[-1].parameters == {"asOf": [TIME]}
    (line,) = [line for line in done.stdout.splitlines() if "As of" in line]
    assert line.split() == ["As", "of", "2026-11-29", "17:00:00", "UTC,", "position", "12345"]


def test_a_list_counts_ages_to_the_moment_and_reads_every_page_as_of_it(
    canned: CannedServer,
) -> None:
    """I2: an hour before 17:00:00.25 a run was submitted, whenever one looks."""
    names = [f"{number:016x}" for number in range(150)]
    submitted = "2026-11-29T16:00:00.250Z"

    def page(request: Request) -> tuple[int, object]:
        first = int(request.parameters.get("before", ["0"])[0])
        last = first + int(request.parameters["limit"][0])
        found = [record(runId=name, submittedAt=submitted) for name in names[first:last]]
        after = str(last) if last < len(names) else None
        return 200, {"runs": found, "next": after, "asOf": THEN}

    canned.answers["GET", "/v1/runs"] = page

    done = here("runs", "list", "--as-of", TIME, "--limit", "150", url=canned.url)

    assert [each.parameters["asOf"] for each in canned.requests] == [[TIME], ["12345"]]
    lines = done.stdout.splitlines()[1:]
    assert len(lines) == 150
    assert {line.split()[-1] for line in lines} == {"1h"}


def test_metrics_are_of_one_moment_on_every_page(canned: CannedServer) -> None:
    """S83: a time is asked for once; the pages after it say the position that it meant."""

    def page(request: Request) -> tuple[int, object]:
        first = int(request.parameters.get("from", ["1"])[0])
        row = {"step": first, "attempt": 1, "measured": {"loss": 1.0}}
        after = 2 if first == 1 else None
        return 200, {"runId": RUN, "steps": [row], "validations": [], "next": after, "asOf": THEN}

    canned.answers["GET", f"{PATH}/metrics"] = page

    done = here("runs", "metrics", RUN, "--as-of", TIME, "-o", "json", url=canned.url)

    assert [each.parameters["asOf"] for each in canned.requests] == [[TIME], ["12345"]]
    assert [row["step"] for row in json.loads(done.stdout)["steps"]] == [1, 2]
    assert json.loads(done.stdout)["asOf"] == THEN


@pytest.mark.parametrize(
    ("command", "member"),
    [("snapshots", "snapshots"), ("branches", "branches"), ("tree", "runs"), ("ancestry", "runs")],
)
def test_snapshots_and_branches_are_asked_for_as_of_the_moment(
    canned: CannedServer, command: str, member: str
) -> None:
    """I7, I12, I13: and their JSON says which one it was."""
    answer = {"runId": RUN, member: [], "next": None, "asOf": THEN}
    canned.answer("GET", f"{PATH}/{command}", answer)

    done = here("runs", command, RUN, "--as-of", TIME, "-o", "json", url=canned.url)

    assert canned.requests[-1].parameters["asOf"] == [TIME]
    assert json.loads(done.stdout)["asOf"] == THEN


def test_a_snapshot_is_asked_for_as_of_the_moment_and_says_which_one(canned: CannedServer) -> None:
    """I7."""
    which = SNAPSHOT["snapshotId"][:12]
    canned.answer("GET", f"/v1/snapshots/{which}", SNAPSHOT | {"asOf": THEN})

    done = here("snapshots", "get", which, "--as-of", TIME, url=canned.url)

    assert canned.requests[-1].parameters["asOf"] == [TIME]
    assert "As of             2026-11-29 17:00:00 UTC, position 12345\n" in done.stdout


def test_branches_are_of_one_moment_on_every_page(canned: CannedServer) -> None:
    """I12: a time is asked for once; the pages after it say the position that it meant."""

    def page(request: Request) -> tuple[int, object]:
        after = None if "before" in request.parameters else 7
        return 200, {"runId": RUN, "branches": [{"position": 9}], "next": after, "asOf": THEN}

    canned.answers["GET", f"{PATH}/branches"] = page

    done = here("runs", "branches", RUN, "--as-of", TIME, "-o", "json", url=canned.url)

    assert [each.parameters["asOf"] for each in canned.requests] == [[TIME], ["12345"]]
    assert len(json.loads(done.stdout)["branches"]) == 2


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("/metrics/buckets", ["--buckets", "2"]),
        ("/metrics/buckets", ["--plot", "loss"]),
        ("/metrics/file", ["-o", "csv", "--superseded", "--attempt", "1"]),
    ],
)
def test_every_form_of_metrics_is_asked_for_as_of_the_moment(
    canned: CannedServer, part: str, options: list[str]
) -> None:
    """I20, U7."""
    measured = {"loss": {"min": 1.0, "max": 1.0, "mean": 1.0, "steps": 2, "notFinite": 0}}
    bucket = {"from": 1, "to": 2, "measured": measured}
    canned.answer("GET", f"{PATH}/metrics/buckets", {"runId": RUN, "buckets": [bucket]})
    canned.answer("GET", f"{PATH}/metrics/file", {})

    done = here("runs", "metrics", RUN, "--as-of", "7", *options, url=canned.url)

    assert done.returncode == 0
    assert canned.requests[-1].path == f"{PATH}{part}"
    assert canned.requests[-1].parameters["asOf"] == ["7"]
