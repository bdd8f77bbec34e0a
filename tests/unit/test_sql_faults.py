"""What DuckDB says of a query, as people read it."""

import duckdb
import pytest

from projections.errors import QueryRefusedError
from projections.sql import faults, sandbox


@pytest.fixture(scope="module")
def tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE runs (run_id VARCHAR, loss DOUBLE)")
    connection.execute("INSERT INTO runs VALUES ('a', 0.5)")
    return connection


@pytest.mark.parametrize(
    ("query", "sentence", "excerpt"),
    [
        (
            "SELECT * FROM runz",
            'there is no table or view runz; did you mean "runs"?',
            "SELECT * FROM runz\n              ^^^^",
        ),
        (
            "SELECT los FROM runs",
            'there is no column los here; did you mean "loss"',
            "SELECT los FROM runs\n       ^^^",
        ),
        (
            "SELECT loss\nFROM runs\nWHERE GROUP",
            'this is no SQL from "GROUP" on',
            "WHERE GROUP\n      ^^^^^",
        ),
        (
            "SELECT run_id + loss FROM runs",
            "no function matches the given name and argument types '+(VARCHAR, DOUBLE)'. You might "
            "need to add explicit type casts",
            "SELECT run_id + loss FROM runs\n              ^",
        ),
        (
            "SELECT run_id::INTEGER FROM runs",
            "could not convert string 'a' to INT32 when casting from source column run_id",
            "SELECT run_id::INTEGER FROM runs\n             ^^^^^^^^^",
        ),
        (
            "SELECT getenv('HOME')",
            'there is no function getenv; did you mean "get_current_time"?',
            "SELECT getenv('HOME')\n       ^^^^^^^^^^^^^^",
        ),
        ("SELECT factorial(1000000)", "value out of range", ""),
    ],
)
def test_a_sentence_says_what_is_wrong_and_two_lines_where(
    tables: duckdb.DuckDBPyConnection, query: str, sentence: str, excerpt: str
) -> None:
    """I26: DuckDB's message, made human."""
    with pytest.raises(duckdb.Error) as caught:
        tables.execute(query).fetchall()

    found = faults.of(caught.value)

    assert (found.sentence, found.excerpt, found.is_limit) == (sentence, excerpt, False)


@pytest.mark.parametrize(
    "text",
    [
        'IO Error: Cannot open file "/home/me/.trainledger/analytics.duckdb": gone',
        "Invalid Input Error: in /home/me/x.py",
        'Binder Error: no "/etc/passwd"\n\nLINE 1: SELECT "/etc/passwd"\n               ^^^^',
    ],
)
def test_no_path_of_the_server_is_told(text: str) -> None:
    """S81."""
    found = faults.of(duckdb.Error(text))

    assert "/" not in found.sentence + found.excerpt
    assert "…" in found.sentence


def test_what_would_change_the_server_is_never_advised() -> None:
    closed = faults.of(
        duckdb.CatalogException(
            'Catalog Error: Table Function with name "sqlite_scan" is not in the catalog, but it '
            "exists in the sqlite_scanner extension.\n\nPlease try installing and loading the "
            "sqlite_scanner extension by running:\nINSTALL sqlite_scanner;"
        )
    )
    too_large = faults.of(
        duckdb.OutOfMemoryException(
            "Out of Memory Error: failed to allocate data of size 1.0 GiB (1.0 GiB/1.0 GiB used)"
            "\nPossible solutions:\n* Reducing the number of threads (SET threads=X)"
        )
    )

    assert closed.sentence == faults.CLOSED
    assert (too_large.sentence, too_large.is_limit) == (faults.MEMORY, True)


def test_a_fault_that_another_library_carried_is_the_same() -> None:
    carried = RuntimeError(
        "ArrowArrayStream::get_next() failed (5): Conversion Error: Could not convert string 'x' "
        "to INT32\n\nLINE 1: SELECT x::INTEGER\n                ^^^^^^^^^"
    )

    assert faults.of(carried).sentence == "could not convert string 'x' to INT32"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "one query at a time; this text has none"),
        ("-- nothing", "one query at a time; this text has none"),
        ("SELECT 1; SELECT 2", "one query at a time; this text has 2 statements"),
        ("INSERT INTO runs VALUES (1)", "queries only read, and this is an INSERT"),
        ("CREATE TEMP TABLE x AS SELECT 1", "queries only read, and this is a CREATE"),
        ("SET VARIABLE x = 1", "queries only read, and this is a SET"),
        ("PRAGMA database_list", "queries only read, and this is a PRAGMA"),
        ("PREPARE x AS SELECT 1", "queries only read, and this is a PREPARE"),
        ("BEGIN", "queries only read, and this is a TRANSACTION"),
        ("PIVOT runs ON run_id USING sum(loss)", "PIVOT has to say its values"),
    ],
)
def test_what_is_no_query_is_refused_by_its_name(text: str, sentence: str) -> None:
    with pytest.raises(QueryRefusedError, match=sentence):
        sandbox.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "FROM runs",
        "VALUES (1)",
        "WITH a AS (SELECT 1) FROM a",
        "DESCRIBE runs",
        "SUMMARIZE runs",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "PIVOT runs ON run_id IN ('a') USING sum(loss)",
        "SELECT 1; -- and no more",
    ],
)
def test_whatever_reads_is_a_query(text: str) -> None:
    sandbox.check(text)
