"""Comparing live projections with their ledger: every difference is named."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from ledger.store.sqlite import Database
from projections.compare import Difference, differences
from projections.documents import Documents
from projections.warehouse import Warehouse, compare
from projections.warehouse.publish import publish
from tests import make

OTHER = "00000000000000bb"
CHILD = "00000000000000c1"
SOURCE = make.origin("10", 10)


class Live:
    """Projections of a history that has a restore, NaN, a branch and a second run."""

    def __init__(self) -> None:
        self.history = make.History(
            make.training(),
            make.steps(10),
            make.step(11, loss=float("nan"), kl=float("inf")),
            make.validation(10, eval_loss=1.0),
            make.saved(5),
            make.saved(10),
            make.branched(CHILD, SOURCE),
            make.retried(2, 5, name="5"),
            make.steps(8, first=6, attempt=2),
            make.offered(8, attempt=2),
            make.training(OTHER),
            make.step(1, run=OTHER, loss=0.5),
        )
        self.database = Database(":memory:")
        self.documents = Documents(self.database, self.history)
        self.warehouse = Warehouse(":memory:")
        self.documents.apply(self.history.events)
        self.warehouse.apply(self.history.events)

    def differences(self) -> list[Difference]:
        return differences(self.history, self.documents, self.warehouse)

    def tamper(self, statement: str) -> None:
        with self.warehouse.read() as cursor:
            cursor.execute(statement)


@pytest.fixture
def live() -> Iterator[Live]:
    live = Live()
    yield live
    live.warehouse.close()


def test_projections_that_are_what_the_ledger_says_have_no_differences(live: Live) -> None:
    assert live.differences() == []


def test_a_projection_that_lags_is_compared_as_far_as_it_came(live: Live) -> None:
    live.documents.apply(live.history.add(make.step(2, run=OTHER), make.submitted("cc")))

    assert live.differences() == []


def test_a_changed_document_is_named_with_its_field(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute(
            "UPDATE document SET phase = 'COMPLETED', state ="
            " CAST(json_set(state, '$.series.loss.sum', 0.25) AS BLOB) WHERE run_id = ?",
            (OTHER,),
        )

    assert live.differences() == [
        Difference("documents", OTHER, "phase differs from the ledger"),
        Difference("documents", OTHER, "state.series.loss.sum differs from the ledger"),
    ]


def test_documents_too_few_and_too_many_are_named(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute("UPDATE document SET run_id = 'ff' WHERE run_id = ?", (OTHER,))

    assert live.differences() == [
        Difference("documents", OTHER, "no document is stored, the ledger makes one"),
        Difference("documents", "ff", "a document is stored, the ledger makes none"),
    ]


def test_a_changed_snapshot_is_named_with_its_column(live: Live) -> None:
    five, ten = make.snapshot_id("5"), make.snapshot_id("10")
    with live.database.write() as connection:
        connection.execute("UPDATE snapshot SET damage = 'none' WHERE step = 5")
        connection.execute("UPDATE snapshot SET superseded = 0 WHERE step = 10")
        connection.execute("UPDATE snapshot_offer SET superseded = 1")

    position = live.history.position() - 9  # of the offer: the second run came after it
    assert live.differences() == [
        Difference("documents", make.RUN, f"offers.{position}.superseded differs from the ledger"),
        Difference("documents", make.RUN, f"snapshots.{ten}.superseded differs from the ledger"),
        Difference("documents", make.RUN, f"snapshots.{five}.damage differs from the ledger"),
    ]


def test_snapshots_too_few_and_too_many_are_named(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute("UPDATE snapshot SET snapshot_id = 'ff' WHERE step = 10")

    assert live.differences() == [
        Difference(
            "documents", make.RUN, f"snapshots.{make.snapshot_id('10')} differs from the ledger"
        ),
        Difference("documents", make.RUN, "snapshots.ff differs from the ledger"),
    ]


def test_snapshots_of_no_run_are_named(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute("UPDATE snapshot SET run_id = 'ff' WHERE step = 10")

    assert (
        Difference("documents", "ff", "snapshots are stored, the ledger knows no such run")
        in live.differences()
    )


def test_a_run_that_went_on_meanwhile_is_compared_as_far_as_it_came(live: Live) -> None:
    """Its snapshots too."""
    live.documents.apply(live.history.add(make.committed("8", 8, attempt=2), make.damaged("5")))

    assert live.differences() == []


def test_a_changed_branch_and_a_changed_hold_are_named_with_their_parent(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute("UPDATE branch SET state = 'refused', steps = 6")
        connection.execute("UPDATE snapshot_holder SET holder = 'ff'")

    token, ten = make.token(CHILD), make.snapshot_id("10")
    assert [each.run_id for each in live.differences()] == [make.RUN] * 4
    assert [each.detail for each in live.differences()] == [
        f"branches.{token}.state differs from the ledger",
        f"branches.{token}.steps differs from the ledger",
        f"holders.{ten}.{CHILD} differs from the ledger",
        f"holders.{ten}.ff differs from the ledger",
    ]


def test_branches_too_few_and_too_many_are_named(live: Live) -> None:
    with live.database.write() as connection:
        connection.execute("UPDATE branch SET token = 'other', parent = 'ff'")

    assert live.differences() == [
        Difference("documents", make.RUN, f"branches.{make.token(CHILD)} differs from the ledger"),
        Difference("documents", "ff", "branches.other differs from the ledger"),
    ]


def test_branches_that_went_on_meanwhile_are_compared_as_far_as_they_came(live: Live) -> None:
    """The warehouse lags; what is held and created since is no difference."""
    live.documents.apply(
        live.history.add(make.snapshot_released(SOURCE, CHILD), make.branched("c2", SOURCE)[:3])
    )

    assert live.differences() == []


def test_a_changed_branch_in_the_warehouse_is_named_with_its_column(live: Live) -> None:
    live.tamper("UPDATE branch SET restore = 'trainingState'")
    live.tamper("UPDATE branch_state SET state = 'refused' WHERE state = 'created'")

    assert live.differences() == [
        Difference("warehouse", make.RUN, "table branch differs from the ledger in column restore"),
        Difference(
            "warehouse", make.RUN, "table branch_state differs from the ledger in column state"
        ),
    ]


def test_states_of_no_branch_are_named_with_their_token(live: Live) -> None:
    live.tamper("DELETE FROM branch")

    token = make.token(CHILD)
    assert live.differences() == [
        Difference("warehouse", make.RUN, "table branch has 0 rows, the ledger makes 1"),
        Difference("warehouse", make.RUN, "table branch_state has 0 rows, the ledger makes 3"),
        Difference("warehouse", token, "table branch_state has 3 rows, the ledger makes 0"),
    ]


def test_a_changed_number_is_named_with_its_column(live: Live) -> None:
    live.tamper(f"UPDATE metric SET loss = 0.25 WHERE run_id = '{OTHER}'")
    live.tamper("UPDATE metric SET extra = MAP {'kl': 1e308} WHERE step = 11")

    assert live.differences() == [
        Difference("warehouse", make.RUN, "table metric differs from the ledger in column extra"),
        Difference("warehouse", OTHER, "table metric differs from the ledger in column loss"),
    ]


def test_rows_too_few_and_too_many_are_named(live: Live) -> None:
    live.tamper(f"DELETE FROM metric WHERE run_id = '{OTHER}'")
    live.tamper("INSERT INTO restore SELECT * FROM restore")

    assert live.differences() == [
        Difference("warehouse", OTHER, "table metric has 0 rows, the ledger makes 1"),
        Difference("warehouse", make.RUN, "table restore has 2 rows, the ledger makes 1"),
    ]


def test_two_values_that_changed_places_are_a_difference(live: Live) -> None:
    """The sum over a column is not enough: each value belongs to its row."""
    live.tamper(
        "UPDATE metric SET loss = CASE step WHEN 1 THEN 0.5 ELSE 1.0 END"
        f" WHERE run_id = '{make.RUN}' AND step IN (1, 2)"
    )

    assert [each.detail for each in live.differences()] == [
        "table metric differs from the ledger in column loss"
    ]


def test_what_analysts_read_the_rows_through_is_compared_too(live: Live) -> None:
    """Issue 7: a view that tells something else of true rows is an edited projection."""
    live.warehouse.make_views()
    for statement in (
        "CREATE OR REPLACE VIEW metrics_long AS SELECT run_id, step, 0.0 AS value FROM metric",
        "CREATE OR REPLACE MACRO segments_until(upto) AS TABLE SELECT * FROM run",
        "DROP VIEW newest",
        "CREATE VIEW mine AS SELECT 1 AS one",
        "ALTER TABLE metric DROP COLUMN grad_norm",
        "DROP TABLE failure",
        "CREATE TABLE others (one INTEGER)",
    ):
        live.tamper(statement)

    assert live.differences() == [
        Difference("warehouse", None, detail)
        for detail in (
            "table failure is missing",
            "table metric has other columns than the ledger makes",
            "table others is none that the ledger makes",
            "view metrics_long is not the one that is made for analysts",
            "view mine is none that the ledger makes",
            "view newest is missing",
            "view segments_until is not the one that is made for analysts",
        )
    ]


def scored(live: Live) -> None:
    """Have both projections hold a rollout."""
    live.history.add(make.scored(8, 0.5, attempt=2))
    live.warehouse.apply(live.history.events)
    live.documents.apply(live.history.events)


def test_rows_of_events_that_never_came_are_named(live: Live) -> None:
    """Beyond where the comparison ends, and still in every view."""
    scored(live)
    for table in ("metric", "rollout"):
        live.tamper(
            f"INSERT INTO {table} SELECT * REPLACE (position + 1000000 AS position) FROM {table}"
            f" WHERE run_id = '{make.RUN}' LIMIT 1"
        )

    assert live.differences() == [
        Difference(
            "warehouse",
            make.RUN,
            f"table {table} has rows of events that the file has not come to: 1",
        )
        for table in ("metric", "rollout")
    ]


def test_a_changed_rollout_is_named(live: Live) -> None:
    """Every table that is filled is compared, without anybody having to list it."""
    scored(live)
    live.tamper("UPDATE rollout SET score = 0.99")

    assert live.differences() == [
        Difference("warehouse", make.RUN, "table rollout differs from the ledger in column score")
    ]


def test_two_rollouts_of_one_event_that_changed_scores_or_places_are_a_difference(
    live: Live,
) -> None:
    """Issue 7: they share a position, so only their places in the event tell them apart."""
    live.documents.apply(added := live.history.add(make.scored(8, 0.25, 0.75, attempt=2)))
    live.warehouse.apply(added)
    assert live.differences() == []

    live.tamper("UPDATE rollout SET score = 1 - score")
    scores = [each.detail for each in live.differences()]
    live.tamper("UPDATE rollout SET score = 1 - score, part_place = 3 - part_place")
    places = [each.detail for each in live.differences()]

    assert scores == ["table rollout differs from the ledger in column score"]
    assert "table rollout differs from the ledger in column score" in places


def test_what_tells_a_row_is_true_of_one_row_alone(live: Live) -> None:
    """A table with several rows for an event has to say by what else they differ."""
    live.warehouse.apply(live.history.add(make.scored(8, 0.25, 0.75, attempt=2)))

    with live.warehouse.read() as cursor:
        tables = [name for (name,) in cursor.execute("SHOW TABLES").fetchall()]
        several = [
            table
            for table in sorted(compare.contents(cursor, 10**9).keys() & set(tables))
            if cursor.execute(
                f"SELECT 1 FROM {table} GROUP BY {compare.ROWS.get(table, 'position')}"
                " HAVING count(*) > 1"
            ).fetchall()
        ]

    assert several == []


def test_the_copy_for_analysts_is_compared_as_far_as_it_goes(live: Live, tmp_path: Path) -> None:
    """Issue 7: the published file is a projection like any other, and nearer to strangers."""
    kept, copy = Warehouse(tmp_path / "warehouse.duckdb"), tmp_path / "analytics.duckdb"
    kept.apply(live.history.events)
    publish(kept, copy)
    kept.close()
    live.history.add(make.steps(12, first=9, attempt=2))
    live.warehouse.apply(live.history.events)
    live.documents.apply(live.history.events)

    def found() -> list[Difference]:
        return differences(live.history, live.documents, live.warehouse, copy=copy)

    assert found() == []
    with duckdb.connect(str(copy)) as edited:
        edited.execute("UPDATE metric SET loss = 0 WHERE step = 3")
        edited.execute("DROP VIEW newest")
    assert found() == [
        Difference("published copy", None, "view newest is missing"),
        Difference(
            "published copy", make.RUN, "table metric differs from the ledger in column loss"
        ),
    ]
    copy.write_bytes(b"not a database")
    ((projection, run_id, detail),) = found()
    assert (projection, run_id) == ("published copy", None)
    assert detail.startswith("the file cannot be read: ")
