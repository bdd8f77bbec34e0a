"""Queries in processes that can be killed, over a published copy: what they may, and may not."""

import csv
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow.ipc
import pyarrow.parquet
import pytest

from projections.errors import QueryBusyError, QueryError, QueryLimitError, QueryRefusedError
from projections.sql import faults
from projections.sql.pool import Answer, Limits, Pool, Question
from projections.warehouse import Warehouse
from projections.warehouse.publish import publish
from tests import make
from tests.product import eventually

SECONDS = 2.0
MEMORY = 256 << 20


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published copy of 60 updates, and a secret beside it."""
    home = tmp_path_factory.mktemp("home")
    warehouse = Warehouse(home / "warehouse.duckdb")
    warehouse.apply(make.recorded(make.training(), make.steps(59), make.step(60, {"loss": NAN})))
    publish(warehouse, home / "analytics.duckdb")
    warehouse.close()
    (home / "token").write_text("hush")
    return home


NAN = float("nan")


@pytest.fixture(scope="module")
def pool(home: Path) -> Iterator[Pool]:
    pool = Pool(home / "analytics.duckdb", Limits(SECONDS, MEMORY, threads=1), workers=1)
    yield pool
    pool.close()


def ask(pool: Pool, query: str, form: str = "json", limit: int | None = None) -> Answer:
    return pool.ask(Question(query, form, limit)).answer.result()


def rows(pool: Pool, query: str, limit: int | None = None) -> list[dict[str, Any]]:
    with ask(pool, query, limit=limit).file as file:
        found: list[dict[str, Any]] = json.load(file)["rows"]
    return found


def test_json_has_every_value_as_every_reader_takes_it(pool: Pool) -> None:
    """C35, U11: NaN and the infinities are strings; NULL is null; names are apart."""
    found = rows(
        pool,
        """
        SELECT
            1 AS a, 2 AS a, NULL AS nothing, 'NaN'::DOUBLE AS nan, '-inf'::DOUBLE AS low,
            170141183460469231731687303715884105727::HUGEINT AS huge, 1.25::DECIMAL(9, 2) AS exact,
            DATE '2026-11-29' AS day, TIMESTAMPTZ '2026-11-29 10:00:00+01' AS at,
            MAP {'x': 'NaN'::DOUBLE} AS map, [1, NULL] AS list, {'b': [0.5]} AS nested,
            '\\xAB'::BLOB AS bytes, true AS yes, 'sn☃w' AS text, INTERVAL 90 SECOND AS span
        """,
    )

    assert found == [
        {
            "a": 1,
            "a_1": 2,
            "nothing": None,
            "nan": "NaN",
            "low": "-Infinity",
            "huge": "170141183460469231731687303715884105727",
            "exact": 1.25,
            "day": "2026-11-29",
            "at": "2026-11-29T09:00:00Z",
            "map": {"x": "NaN"},
            "list": [1, None],
            "nested": {"b": [0.5]},
            "bytes": "ab",
            "yes": True,
            "text": "sn☃w",
            "span": "0:01:30",
        }
    ]


def test_every_format_has_every_row(pool: Pool) -> None:
    query = "SELECT step, loss, extra, happened_at FROM metrics ORDER BY step"

    with ask(pool, query, "csv").file as file:
        lines = list(csv.reader(file.read().decode().splitlines()))
    with ask(pool, query, "parquet").file as file:
        parquet = pyarrow.parquet.read_table(file)
    with ask(pool, query, "arrow").file as file:
        arrow = pyarrow.ipc.open_stream(file).read_all()

    assert lines[0] == ["step", "loss", "extra", "happened_at"]
    assert [int(line[0]) for line in lines[1:]] == list(range(1, 61))
    assert lines[-1][1] == "nan"
    for table in (parquet, arrow):
        assert table.column("step").to_pylist() == list(range(1, 61))
        assert table.column("loss").to_pylist()[:2] == [1.0, 0.5]


def test_an_answer_says_which_copy_it_is_of_and_whether_there_is_more(pool: Pool) -> None:
    whole, part, all_of_it = (ask(pool, "FROM metrics", limit=limit) for limit in (None, 5, 60))

    with whole.file, part.file, all_of_it.file:
        assert [each.is_cut for each in (whole, part, all_of_it)] == [False, True, False]
        assert {each.position for each in (whole, part, all_of_it)} == {68}
        said = json.load(part.file)
    assert (said["rowCount"], said["isCut"], said["position"]) == (5, True, 68)
    assert said["publishedAt"] == part.published_at
    assert said["columns"][0] == {"name": "run_id", "type": "VARCHAR"}


def test_a_new_copy_is_read_by_the_next_query(pool: Pool, home: Path) -> None:
    fresh = Warehouse(home / "other.duckdb")
    fresh.apply(make.recorded(make.training(), make.steps(7)))
    kept = (home / "analytics.duckdb").read_bytes()

    publish(fresh, home / "analytics.duckdb")
    found = rows(pool, "SELECT count(*) AS n FROM metrics")
    (home / "kept").write_bytes(kept)
    (home / "kept").replace(home / "analytics.duckdb")

    assert found == [{"n": 7}]
    assert rows(pool, "SELECT count(*) AS n FROM metrics") == [{"n": 60}]
    fresh.close()


CLOSED = [
    "SELECT * FROM read_text('{home}/token')",
    "SELECT * FROM '{home}/token'",
    "SELECT * FROM read_blob('{home}/analytics.duckdb')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('{home}/*')",
    "SELECT * FROM read_json('/proc/self/environ')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM '{home}/analytics.duckdb'",
    "SELECT * FROM read_csv('https://example.com/x.csv')",
    "SELECT * FROM sqlite_scan('x.db', 'y')",
    "WITH gone AS (DELETE FROM metric RETURNING *) SELECT * FROM gone",
    "WITH made AS (INSERT INTO tracking VALUES (1) RETURNING *) SELECT * FROM made",
    "WITH changed AS (UPDATE run SET project = 'x' RETURNING *) SELECT * FROM changed",
]
NO_QUERY = [
    "ATTACH '{home}/ledger.db'",
    "COPY metric TO '{home}/out.csv'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "EXPORT DATABASE '{home}/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '64GB'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA threads = 64",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE MACRO x() AS 1",
    "CREATE SECRET x (TYPE s3)",
    "DROP TABLE metric",
    "DELETE FROM metric",
    "UPDATE metric SET loss = 0",
    "SET VARIABLE x = 1",
    "PREPARE x AS SELECT 1",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "USE memory",
    "CALL enable_logging()",
    "CALL pragma_version()",
    "SELECT 1; DROP TABLE metric",
]
UNKNOWN = [
    "SELECT getenv('HOME')",
    "SELECT nextval('x')",
    "SELECT * FROM query('DELETE FROM metric')",
    "SELECT * FROM query_table('pool')",
    "SELECT * FROM answers",
]


@pytest.mark.parametrize("query", CLOSED)
def test_what_reaches_beyond_the_tables_is_closed(pool: Pool, home: Path, query: str) -> None:
    """U21: whatever the statement's type says."""
    with pytest.raises(QueryRefusedError) as caught:
        ask(pool, query.format(home=home))

    assert str(caught.value) == faults.CLOSED or "there is no table or view" in str(caught.value)
    assert str(home) not in str(caught.value)


@pytest.mark.parametrize("query", [*NO_QUERY, *UNKNOWN])
def test_what_is_no_query_is_refused(pool: Pool, home: Path, query: str) -> None:
    with pytest.raises(QueryRefusedError) as caught:
        ask(pool, query.format(home=home))

    assert str(home) not in str(caught.value)


def test_nothing_was_left_behind_or_changed(pool: Pool, home: Path) -> None:
    """After all of the above; and the settings show no home of anybody."""
    settings = rows(pool, "SELECT value FROM duckdb_settings() WHERE name = 'secret_directory'")

    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == []
    assert not list(home.glob("out*"))
    assert rows(pool, "SELECT count(*) AS n FROM metrics") == [{"n": 60}]
    assert settings == [{"value": "/nonexistent/.duckdb/stored_secrets"}]


ENDLESS = [
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT sum(length(repeat('x', 100000000))) FROM range(1000)",
    "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range % 7 = b.range % 5",
    "SELECT repeat('x', 1000000000)",
    "SELECT string_agg(repeat('x', 1000000)) FROM range(100000)",
    "SELECT list(range) FROM range(1000000000)",
    "SELECT * FROM range(1000000000) ORDER BY hash(range)",
    "SELECT * FROM metrics a, metrics b, metrics c, metrics d, metrics e ORDER BY random()",
    "SELECT range, repeat('abc', 1000) FROM range(100000000)",
]


@pytest.mark.parametrize("query", ENDLESS)
def test_what_asks_for_too_much_is_over_within_its_time_and_a_second(
    pool: Pool, query: str
) -> None:
    """And the next query is answered as if nothing had been."""
    began = time.monotonic()
    with pytest.raises(QueryLimitError):
        ask(pool, query)
    taken = time.monotonic() - began

    assert taken < SECONDS + 1 + slack()
    assert rows(pool, "SELECT 1 AS one") == [{"one": 1}]


def slack() -> float:
    """What a busy machine may add: processes are started and killed meanwhile."""
    return 2 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


LARGE = "SELECT length(repeat('x', 100000000)) AS n"  # 0.1 GB, and as much again in between


@pytest.mark.parametrize("greedy", [ENDLESS[5], "SELECT length(repeat('x', 200000000)) AS n"])
def test_a_query_has_as_much_memory_as_any_other_whatever_was_asked_before(
    home: Path, greedy: str
) -> None:
    """What a greedy query took, answered or not, is not taken from the next one."""
    pool = Pool(home / "analytics.duckdb", Limits(60.0, MEMORY, threads=1), workers=1)

    with suppress(QueryLimitError):
        ask(pool, greedy).file.close()

    assert rows(pool, LARGE) == [{"n": 100_000_000}]
    with ask(pool, "SELECT 1 AS one", "arrow").file as file:  # its library is loaded only now
        assert pyarrow.ipc.open_stream(file).read_all().to_pylist() == [{"one": 1}]
    pool.close()


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "json"])
def test_a_query_that_fails_on_the_way_is_refused_in_every_format(pool: Pool, form: str) -> None:
    """An answer is whole, or there is none."""
    late = "SELECT CAST(CASE step WHEN 60 THEN 'x' ELSE '1' END AS INTEGER) FROM metrics"

    with pytest.raises(QueryRefusedError, match="could not convert string 'x'"):
        ask(pool, f"{late} ORDER BY step", form)


def test_an_answer_that_is_too_large_is_refused(home: Path) -> None:
    limits = Limits(30.0, MEMORY, answer_bytes=100_000, threads=1)
    pool = Pool(home / "analytics.duckdb", limits, workers=1)
    query = "SELECT range, hash(range), md5(range::VARCHAR) FROM range(100000)"

    for form in ("json", "csv", "parquet", "arrow"):
        with pytest.raises(QueryLimitError, match="larger than one may be"):
            ask(pool, query, form)
    pool.close()


def test_stopping_a_question_kills_what_answers_it(home: Path) -> None:
    """A client that leaves takes its query along."""
    pool = Pool(home / "analytics.duckdb", Limits(60.0, MEMORY, threads=1), workers=1)
    others = workers()
    asked = pool.ask(Question(ENDLESS[0]))
    (worker,) = eventually(lambda: workers() - others)

    asked.stop()

    worker.wait(10)
    assert isinstance(asked.answer.exception(10), QueryError)
    assert rows(pool, "SELECT 1 AS one") == [{"one": 1}]
    pool.close()
    assert workers() <= others


def workers() -> set[psutil.Process]:
    """Every worker of this process that lives."""
    return {
        each
        for each in psutil.Process().children()
        if each.status() != psutil.STATUS_ZOMBIE and "projections.sql.worker" in each.cmdline()
    }


def test_a_question_that_finds_no_worker_for_too_long_is_told_so(home: Path) -> None:
    pool = Pool(home / "analytics.duckdb", Limits(0.5, MEMORY, threads=1), workers=1)

    asked = [pool.ask(Question(ENDLESS[0])) for _ in range(4)]
    faults_of = [type(each.answer.exception(60)) for each in asked]

    assert faults_of[0] is QueryLimitError
    assert QueryBusyError in faults_of
    pool.close()


def test_a_worker_that_ended_meanwhile_is_replaced(pool: Pool) -> None:
    assert rows(pool, "SELECT 1 AS one") == [{"one": 1}]
    for worker in workers():
        worker.kill()
        worker.wait(10)

    assert rows(pool, "SELECT 2 AS two") == [{"two": 2}]


def test_the_copy_can_be_read_by_others_meanwhile(pool: Pool, home: Path) -> None:
    """C55: readers never fail each other."""
    assert rows(pool, "SELECT 1 AS one") == [{"one": 1}]

    with duckdb.connect(str(home / "analytics.duckdb"), read_only=True) as other:
        assert other.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]


def test_a_pool_that_is_closed_answers_nothing_more(home: Path) -> None:
    pool = Pool(home / "analytics.duckdb", Limits(60.0, MEMORY, threads=1), workers=1)
    asked = [pool.ask(Question(ENDLESS[0])) for _ in range(2)]

    pool.close()

    assert all(each.answer.done() for each in asked)
    with pytest.raises(QueryBusyError):
        pool.ask(Question("SELECT 1"))
