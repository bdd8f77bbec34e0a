"""Commands about snapshots: what they ask, what they show, and their exit codes."""

import json
from collections.abc import Iterator

import pytest

from tests.cli_answers import SAVED_AT_40, SAVED_AT_60, snapshot
from tests.cli_server import RUN, CannedServer, canned_server, here, problem

ROWS = [snapshot(SAVED_AT_60, 60), snapshot(SAVED_AT_40, 40, pinned=True)]


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def test_the_snapshots_of_a_run_are_a_table_or_json(canned: CannedServer) -> None:
    """I7: the JSON is whole, the table has one line each."""
    answer = {"runId": RUN, "snapshots": ROWS}
    canned.answer("GET", f"/v1/runs/{RUN}/snapshots", answer)

    text = here("runs", "snapshots", RUN, url=canned.url)
    as_json = here("runs", "snapshots", RUN, "-o", "json", url=canned.url)

    assert [line.split()[0] for line in text.stdout.splitlines()] == ["step", "60", "40"]
    assert json.loads(as_json.stdout) == answer


def test_one_snapshot_is_shown_by_the_beginning_of_its_id(canned: CannedServer) -> None:
    """I8."""
    canned.answer("GET", "/v1/snapshots/3f2a", ROWS[1])

    text = here("snapshots", "get", "3f2a", url=canned.url)
    as_json = here("snapshots", "get", "3f2a", "-o", "json-compact", url=canned.url)

    assert f"  Id                {SAVED_AT_40}\n" in text.stdout
    assert "  Held by           pinned\n" in text.stdout
    assert json.loads(as_json.stdout) == ROWS[1]


def test_a_snapshot_that_there_is_not_is_exit_3_and_an_unclear_one_4(canned: CannedServer) -> None:
    """C23, D8: the candidates are listed."""
    missing = problem("snapshot-not-found", "there is no snapshot 'ffff'", 404, hint="list them")
    ids = [SAVED_AT_40, SAVED_AT_60]
    unclear = problem("ambiguous-id", "abcd begins 2 ids", 409, candidates=ids)
    canned.answer("GET", "/v1/snapshots/ffff", missing, 404)
    canned.answer("POST", "/v1/snapshots/abcd:pin", unclear, 409)

    gone = here("snapshots", "get", "ffff", url=canned.url)
    several = here("snapshots", "pin", "abcd", url=canned.url)

    assert (gone.returncode, several.returncode) == (3, 4)
    assert gone.stderr == "error: there is no snapshot 'ffff'\nhint: list them\n"
    assert several.stderr == f"error: abcd begins 2 ids\n  {ids[0]}\n  {ids[1]}\n"


@pytest.mark.parametrize(("command", "said"), [("pin", "is pinned"), ("unpin", "is not pinned")])
def test_a_snapshot_is_pinned_and_unpinned(canned: CannedServer, command: str, said: str) -> None:
    """I10: the whole id is said."""
    answer = snapshot(pinned=command == "pin")
    canned.answer("POST", f"/v1/snapshots/3f2a9c71bd04:{command}", answer)

    text = here("snapshots", command, "3f2a9c71bd04", url=canned.url)
    as_json = here("snapshots", command, "3f2a9c71bd04", "-o", "json", url=canned.url)

    assert (text.returncode, text.stdout) == (0, f"snapshot {SAVED_AT_40} {said}\n")
    assert json.loads(as_json.stdout) == answer


def test_a_sweep_says_how_many_bytes_are_free_now(canned: CannedServer) -> None:
    """U13, I10."""
    answer = {"runId": RUN, "freedBytes": 60_338_176}
    canned.answer("POST", f"/v1/runs/{RUN[:4]}:sweep", answer)

    text = here("snapshots", "sweep", RUN[:4], url=canned.url)
    as_json = here("snapshots", "sweep", RUN[:4], "-o", "json", url=canned.url)

    assert text.stdout == f"run {RUN}: 60,338,176 bytes freed (57.5 MiB)\n"
    assert json.loads(as_json.stdout) == answer


def test_an_id_with_odd_characters_stays_one_part_of_the_path(canned: CannedServer) -> None:
    """U21: what a user types does not choose another route."""
    here("snapshots", "get", "../runs?x", url=canned.url)

    assert canned.requests[0].path == "/v1/snapshots/..%2Fruns%3Fx"
