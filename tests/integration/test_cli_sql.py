"""``trainledger sql``: what it asks, what it shows, and how it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_server import CannedServer, canned_server, here, problem, trainledger

NARROW = "40"


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def answer(*rows: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """An answer of the service, its columns those of the first row."""
    kinds = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", dict: "MAP(VARCHAR, DOUBLE)"}
    columns = [
        {"name": name, "type": kinds.get(type(value), "VARCHAR")} for name, value in rows[0].items()
    ]
    said = {"position": 72, "publishedAt": "2026-11-29T21:58:36.287Z", "columns": columns}
    return said | {"rows": list(rows), "rowCount": len(rows), "isCut": False} | facts


ROWS = (
    {"run_id": "00000000000000aa", "loss": 0.123456789012, "steps": 1200, "extra": {"x": 0.5}},
    {"run_id": "00000000000000bb", "loss": "NaN", "steps": None, "extra": None},
)


def test_an_answer_is_a_table_and_of_when_it_is_stands_on_stderr(canned: CannedServer) -> None:
    """C55: stdout is data; the copy may lag, so its position and time are said."""
    canned.answer("POST", "/v1/sql", answer(*ROWS))

    done = here("sql", "SELECT 1", url=canned.url)

    assert done.stdout == (
        "run_id                   loss  steps  extra\n"
        '00000000000000aa  0.123456789   1200  {"x": 0.5}\n'
        "00000000000000bb          NaN      -  -\n"
    )
    assert done.stderr == "2 rows; as of position 72, published 2026-11-29 21:58:36 UTC\n"
    assert canned.requests[-1].body == {"query": "SELECT 1", "limit": 1000, "fresh": False}


def test_a_table_says_when_there_are_more_rows(canned: CannedServer) -> None:
    canned.answer("POST", "/v1/sql", answer(*ROWS, isCut=True))

    done = here("sql", "SELECT 1", "--limit", "2", "--fresh", url=canned.url)
    quiet = here("sql", "SELECT 1", "-q", url=canned.url)

    assert done.stderr.startswith("only the first 2 rows: --limit N has more, -o csv all of them;")
    assert canned.requests[0].body == {"query": "SELECT 1", "limit": 2, "fresh": True}
    assert quiet.stderr == ""


def test_json_is_whole_and_can_be_filtered(canned: CannedServer) -> None:
    """C35, S165."""
    canned.answer("POST", "/v1/sql", answer(*ROWS))

    whole = here("sql", "SELECT 1", "-o", "json", url=canned.url)
    losses = here("sql", "SELECT 1", "--jq", ".rows[].loss", url=canned.url)
    chosen = here("sql", "SELECT 1", "--json", "loss,steps", url=canned.url)

    assert json.loads(whole.stdout) == answer(*ROWS)
    assert canned.requests[0].body["limit"] is None
    assert losses.stdout == "0.123456789012\nNaN\n"
    assert json.loads(chosen.stdout) == [
        {"loss": 0.123456789012, "steps": 1200},
        {"loss": "NaN", "steps": None},
    ]


@pytest.mark.parametrize(
    ("form", "media_type"),
    [
        ("csv", "text/csv"),
        ("parquet", "application/vnd.apache.parquet"),
        ("arrow", "application/vnd.apache.arrow.stream"),
    ],
)
def test_other_formats_come_byte_for_byte(
    canned: CannedServer, tmp_path: Path, form: str, media_type: str
) -> None:
    content = bytes(range(256)) * 1000
    canned.answer("POST", "/v1/sql", content)
    file = tmp_path / "answer"

    here("sql", "SELECT 1", "-o", form, "--file", str(file), url=canned.url)

    assert file.read_bytes() == content
    assert canned.requests[0].headers["accept"] == media_type
    assert canned.requests[0].body["limit"] is None


def test_a_query_that_is_wrong_shows_where(canned: CannedServer) -> None:
    """D8, I26: refused by the service is exit 4."""
    excerpt = "SELECT los FROM runs\n       ^^^"
    refused = problem("query-refused", "there is no column los here", 422, excerpt=excerpt)
    canned.answer("POST", "/v1/sql", refused | {"hint": "look"}, 422)

    for more in ([], ["-o", "csv"]):
        done = here("sql", "SELECT los FROM runs", *more, url=canned.url)

        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr == (
            "error: there is no column los here\n  SELECT los FROM runs\n         ^^^\nhint: look\n"
        )


def test_a_query_may_come_from_stdin(canned: CannedServer) -> None:
    canned.answer("POST", "/v1/sql", answer(*ROWS))

    here("sql", "-", url=canned.url, stdin="SELECT\n1")

    assert canned.requests[0].body["query"] == "SELECT\n1"


def test_hostile_text_in_a_cell_stays_on_its_line(canned: CannedServer) -> None:
    """U19, C40."""
    canned.answer("POST", "/v1/sql", answer({"name": "a\n\x1b[31mb\u202e", "p%/[x]\n": 1.0}))

    done = here("sql", "SELECT 1", url=canned.url)

    assert done.stdout == ("name                p%/[x]\\n\na\\n\\x1b[31mb\\u202e         1\n")


def test_no_rows_are_a_head_without_lines(canned: CannedServer) -> None:
    empty = answer({"run_id": "x"}) | {"rows": [], "rowCount": 0}
    canned.answer("POST", "/v1/sql", empty)

    done = here("sql", "FROM runs", url=canned.url)

    assert done.stdout == "run_id\n"
    assert done.stderr.startswith("0 rows; as of position 72")


def test_the_path_is_of_this_machine_only(canned: CannedServer) -> None:
    copy = {"path": "/home/me/.trainledger/analytics.duckdb", "position": 72}
    canned.answer("GET", "/v1/sql", copy)
    canned.answer("POST", "/v1/sql:publish", copy)

    for more in ([], ["--fresh"]):
        done = here("sql", "--path", *more, url=canned.url)
        assert (done.stdout, done.stderr) == (f"{copy['path']}\n", "")
    far = here("sql", "--path", url="http://ledger.example:80")

    assert far.returncode == 4
    assert "the copy is on the machine of http://ledger.example" in far.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "state a QUERY, --path or --follow FILE"),
        (["SELECT 1", "--path"], "state a QUERY, --path or --follow FILE"),
        (["SELECT 1", "--file", "x"], "--file needs -o csv, -o parquet or -o arrow"),
        (["SELECT 1", "-o", "text"], "'text' is not one of"),
        (["SELECT 1", "-o", "csv", "--jq", "."], "--json and --jq write JSON"),
        (["--follow", "x.duckdb"], "--follow reads a ledger of this machine"),
        (["SELECT 1", "--limit", "-1"], "'--limit'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    canned: CannedServer, arguments: list[str], said: str
) -> None:
    """D8: exit 2."""
    done = here("sql", *arguments, url=canned.url)

    assert done.returncode == 2
    assert said in done.stderr
    assert canned.requests == []


def test_bytes_go_through_a_pipe(canned: CannedServer) -> None:
    canned.answer("POST", "/v1/sql", b"a,b\n1,2\n")

    done = trainledger("sql", "SELECT 1", "-o", "csv", url=canned.url)

    assert done.stdout == "a,b\n1,2\n"
