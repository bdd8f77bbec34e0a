"""What analysts read is documented where they read it: in the database itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from projections.warehouse import Warehouse

TEXT = (Path(__file__).parents[2] / "docs" / "sql.md").read_text("utf-8")
PROMISED = {
    *("runs", "attempts", "phases", "run_timing", "run_cost", "metrics", "metrics_all_attempts"),
    *("metrics_long", "snapshots", "branches", "rollouts", "events", "validations"),
    *("start_checks", "rollouts_all_attempts"),
}
BENEATH = {"segments", "metrics_all", "validations_all", "rollouts_all"}  # what views are made of


@pytest.fixture(scope="module")
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    with warehouse.read() as cursor:
        yield cursor
    warehouse.close()


def test_every_view_and_every_column_of_it_has_a_comment(cursor: duckdb.DuckDBPyConnection) -> None:
    """Issue 7: any client shows them."""
    views = cursor.execute(
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    silent = cursor.execute(
        "SELECT table_name, column_name FROM duckdb_columns() AS c JOIN duckdb_views() AS v"
        " ON c.table_name = v.view_name WHERE NOT v.internal AND c.comment IS NULL"
    ).fetchall()

    assert {name for name, comment in views if comment is None} == BENEATH
    assert {name for name, _ in views} >= PROMISED
    assert {view for view, _ in silent} == BENEATH


def test_every_view_has_a_section_and_every_table_a_word(cursor: duckdb.DuckDBPyConnection) -> None:
    views = cursor.execute(
        "SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NOT NULL"
    ).fetchall()
    tables = cursor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"
    ).fetchall()

    assert sorted(re.findall(r"^### (\w+)$", TEXT, re.MULTILINE)) == sorted(v for (v,) in views)
    assert {name for (name,) in tables if f"`{name}`" not in TEXT} == {"schema_version"}
