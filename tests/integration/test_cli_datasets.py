"""``datasets check``: what it asks, what it shows, and its exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_server import CannedServer, canned_server, here

PATH = "/v1/datasets:check"
FIT = {"rows": 360, "reached": 12, "lostEnd": 3, "dropped": 1, "longest": 1190}
ACCEPTED = {
    "dataset": "/data/train.jsonl",
    "baseModel": "/models/smollm2",
    "maxSeqLength": 1024,
    "accepted": True,
    "reason": None,
    "form": "chat",
    "rows": 360,
    "identity": "39" * 32,
    "dataFit": FIT,
}
NOTHING = {"form": None, "rows": None, "identity": None, "dataFit": None}
REASON = "an example ends with a user message: row 2 of /data/train.jsonl"
REFUSED = ACCEPTED | NOTHING | {"accepted": False, "reason": f"{REASON}\x1b[31m"}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answer("POST", PATH, ACCEPTED)
        yield server


def check(canned: CannedServer, *words: str) -> Any:
    return here("datasets", "check", "rows.jsonl", "--base-model", "org/model", *words,
        url=canned.url)  # fmt: skip


def test_the_verdict_comes_with_the_data_fit(canned: CannedServer) -> None:
    """S46, S47, S48."""
    done = check(canned)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "/data/train.jsonl: accepted",
        "  Rows              360 chat rows",
        "  Data fit          360 rows: 12 reached maxSeqLength, 3 of them lost the end of the "
        "target, 1 dropped with nothing left to train on",
        "  Longest row       1,190 tokens, before the cut",
        "  maxSeqLength      1,024",
        "  Base model        /models/smollm2",
        f"  Identity          {'39' * 32}",
    ]


def test_rows_that_would_be_refused_end_with_1_and_the_reason(canned: CannedServer) -> None:
    """D8, S66, U19: as data on stdout; nothing in it acts on a terminal."""
    canned.answer("POST", PATH, REFUSED)

    done = check(canned)

    assert done.returncode == 1
    assert done.stdout.startswith("/data/train.jsonl: refused\n")
    assert REASON in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == "error: a run would refuse these rows\n"


def test_json_is_the_answer_whatever_the_verdict_is(canned: CannedServer) -> None:
    """S165."""
    assert json.loads(check(canned, "-o", "json").stdout) == ACCEPTED
    canned.answer("POST", PATH, REFUSED)
    assert json.loads(check(canned, "-o", "json-compact").stdout) == REFUSED


def test_files_are_asked_for_by_their_whole_path_and_names_of_a_hub_as_they_are(
    canned: CannedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server runs in another folder; a length that is not stated is the plan's default."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()

    check(canned)
    here("datasets", "check", "../rows.jsonl", "--base-model", "models", "--max-seq-length", "64",
        url=canned.url)  # fmt: skip

    assert [request.body for request in canned.asked("POST", PATH)] == [
        {"dataset": str(tmp_path / "rows.jsonl"), "baseModel": "org/model"},
        {
            "dataset": str(tmp_path.parent / "rows.jsonl"),
            "baseModel": str(tmp_path / "models"),
            "maxSeqLength": 64,
        },
    ]


# -- the catalogue ---------------------------------------------------------------------------------

CATALOGUE = "/v1/datasets"
DATASET = {
    "identity": "39418e9c3ad8" + "0" * 52,
    "names": ["support", "train"],
    "form": "chat",
    "rows": 360,
    "sizeBytes": 98304,
    "createdAt": "2026-11-29T17:40:02.000Z",
    "createdBy": "user/ana",
}
NAMINGS = [{"name": "sup\x1b[31mport", "at": "2026-11-29T17:41:02.000Z", "by": "user/ana"}]


def test_rows_are_taken_in_from_where_one_stands(
    canned: CannedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I14, S168: stdout has what they are, stderr what became of the name."""
    made = DATASET | {"created": True, "movedFrom": "77" * 32}
    canned.answer("POST", CATALOGUE, made, status=201)
    monkeypatch.chdir(tmp_path)

    done = here("datasets", "create", "rows.jsonl", "--name", "support", url=canned.url)

    (asked,) = canned.asked("POST", CATALOGUE)
    assert asked.body == {"file": str(tmp_path / "rows.jsonl"), "name": "support"}
    assert done.stdout.splitlines() == [
        "Data set 39418e9c3ad8: support, train",
        "  Rows              360 chat rows",
        "  Size              96.0 KiB",
        "  Created           2026-11-29 17:40:02 UTC by user/ana",
        f"  Identity          39418e9c3ad8{'0' * 52}",
    ]
    assert done.stderr == "taken in; support meant 777777777777 before\n"


def test_a_data_set_is_shown_with_every_name_it_was_given(canned: CannedServer) -> None:
    """I14, U19: nothing in a name acts on a terminal."""
    canned.answer("GET", f"{CATALOGUE}/support", DATASET | {"namings": NAMINGS})

    done = here("datasets", "get", "support", url=canned.url)

    named = done.stdout.splitlines()[-1]
    assert named.split() == ["Named", "sup\\x1b[31mport", "2026-11-29", "17:41:02", "UTC", "by",
        "user/ana"]  # fmt: skip


def test_the_catalogue_is_a_table(canned: CannedServer) -> None:
    """I14."""
    canned.answer("GET", CATALOGUE, {"datasets": [DATASET, DATASET | {"names": []}]})

    done = here("datasets", "list", url=canned.url)

    head, first, second = (line.split() for line in done.stdout.splitlines())
    assert head[:4] == ["identity", "names", "form", "rows"]
    assert first[:5] == ["39418e9c3ad8", "support", "train", "chat", "360"]
    assert second[1] == "-"


def test_an_empty_catalogue_is_said(canned: CannedServer) -> None:
    canned.answer("GET", CATALOGUE, {"datasets": []})

    assert here("datasets", "list", url=canned.url).stdout == "no data sets\n"
