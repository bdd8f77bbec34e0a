"""Rebuilding beside the live projection: readers see the old one, then the new one."""

from pathlib import Path

from ledger.store.sqlite import Database
from projections.compare import differences
from projections.documents import Documents
from projections.rebuild import Live, rebuild
from projections.source import Source
from projections.warehouse import Warehouse, queries
from tests import make


def rebuild_documents(live: Documents, source: Source, folder: Path) -> None:
    warehouse = Warehouse(":memory:")
    for _ in rebuild(Live(live, warehouse), source, folder, ["documents"]):
        pass
    warehouse.close()


def rebuild_warehouse(live: Warehouse, source: Source, folder: Path) -> None:
    documents = Documents(Database(":memory:"), source)
    folder.mkdir()
    for _ in rebuild(Live(documents, live), source, folder, ["warehouse"]):
        pass


def test_rebuilt_documents_take_the_place_of_wrong_ones(tmp_path: Path) -> None:
    saves = [make.saved(4), make.saved(8), make.damaged("8"), make.offered(9)]
    history = make.History(make.training(), make.steps(10), saves, make.retried(2, 4, name="4"))
    database = Database(":memory:")
    live = Documents(database, history)
    live.apply(history.events)
    expected = live.whole(make.RUN)
    with database.write() as connection:
        connection.execute("UPDATE document SET run_id = 'ff', phase = 'FAILED'")
        connection.execute("UPDATE snapshot SET damage = NULL, run_id = 'ff'")
        connection.execute("DELETE FROM snapshot_offer")

    rebuild_documents(live, history, tmp_path)

    assert live.whole(make.RUN) == expected
    assert live.runs() == [make.RUN]
    assert [each["status"] for each in live.snapshots(make.RUN)] == ["committed", "damaged"]
    live.apply(history.add(make.committed("9", 9), make.step(5, attempt=2)))
    assert live.snapshots(make.RUN)[-1]["status"] == "superseded"
    assert live.position() == history.position()


def test_rebuilt_branches_and_holds_take_the_place_of_wrong_ones(tmp_path: Path) -> None:
    source = make.origin("4", 4)
    story = make.branched("c1", source)
    history = make.History(make.training(), make.steps(4), make.saved(4), story[:3])
    database = Database(":memory:")
    live = Documents(database, history)
    live.apply(history.events)
    expected = live.branching()
    with database.write() as connection:
        connection.execute("UPDATE branch SET parent = 'ff', state = 'refused'")
        connection.execute("DELETE FROM snapshot_holder")

    rebuild_documents(live, history, tmp_path)

    assert live.branching() == expected
    assert [each["heldBy"] for each in live.snapshots(make.RUN)] == [["c1"]]
    live.apply(history.add(story[3:], make.snapshot_released(source, "c1")))
    assert [each["state"] for each in live.branches(make.RUN)] == ["created"]
    assert [each["heldBy"] for each in live.snapshots(make.RUN)] == [[]]


def test_a_rebuilt_warehouse_takes_the_place_of_the_live_file(tmp_path: Path) -> None:
    history = make.History(make.training(), make.steps(10), make.retried(2, 4))
    live = Warehouse(tmp_path / "warehouse.duckdb")
    live.apply(history.events)
    with live.read() as cursor:
        cursor.execute("UPDATE metric SET loss = 0")

    rebuild_warehouse(live, history, tmp_path / "fresh")

    steps, values = queries.series(live, make.RUN, "loss")
    assert steps.tolist() == [1, 2, 3, 4]
    assert values.tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]
    live.apply(history.add(make.step(5, attempt=2)))
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    assert differences(history, documents, live) == []
    live.close()
    assert [file.name for file in sorted(tmp_path.glob("*.duckdb*"))] == ["warehouse.duckdb"]


def test_what_was_applied_during_the_rebuild_is_not_lost(tmp_path: Path) -> None:
    """The fresh one catches up with the live one before they change places."""
    history = make.History(make.training(), make.steps(3))
    live = Warehouse(tmp_path / "warehouse.duckdb")
    live.apply(history.events)
    fresh = Warehouse(tmp_path / "fresh.duckdb")
    fresh.apply(history.events)
    live.apply(history.add(make.steps(6, first=4)))

    live.replace(fresh, history)

    assert live.position() == 14
    assert queries.series(live, make.RUN, "loss")[0].tolist() == [1, 2, 3, 4, 5, 6]
    live.close()


def test_a_projection_of_a_longer_ledger_becomes_one_of_this_ledger(tmp_path: Path) -> None:
    """An older copy of the ledger was put back."""
    history = make.History(make.training(), make.steps(3))
    live = Warehouse(tmp_path / "warehouse.duckdb")
    live.apply(history.events)
    history.events = history.events[:9]

    rebuild_warehouse(live, history, tmp_path / "fresh")

    assert live.position() == 9
    assert queries.series(live, make.RUN, "loss")[0].tolist() == [1]
    live.close()


def test_documents_whose_table_is_gone_are_made_anew(tmp_path: Path) -> None:
    history = make.History(make.training(), make.steps(3))
    database = Database(":memory:")
    live = Documents(database, history)
    live.apply(history.events)
    expected = live.whole(make.RUN)
    database.script("DROP TABLE document; DROP TABLE milestone")

    rebuild_documents(live, history, tmp_path)

    assert live.whole(make.RUN) == expected


def test_what_comes_while_a_projection_is_made_anew_is_in_it(tmp_path: Path) -> None:
    """Both serve meanwhile, and each step says how far which of them has come."""
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    live = Live(Documents(Database(":memory:"), history), warehouse)
    for each in live:
        each.apply(history.events)
    begun = history.position()

    told = rebuild(live, history, tmp_path / "fresh")
    (tmp_path / "fresh").mkdir()
    first = next(told)
    for each in live:
        each.apply(history.add(make.steps(6, first=4)))
    rest = list(told)

    end = history.position()
    assert [first, *rest] == [
        ("documents", begun),
        ("warehouse", begun),
        ("documents", end),
        ("warehouse", end),
    ]
    assert differences(history, *live) == []
    assert queries.series(warehouse, make.RUN, "loss")[0].tolist() == [1, 2, 3, 4, 5, 6]
    warehouse.close()


def test_whoever_asks_no_further_leaves_the_live_ones_as_they_are(tmp_path: Path) -> None:
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    live = Live(Documents(Database(":memory:"), history), warehouse)
    for each in live:
        each.apply(history.events)
    with warehouse.read() as cursor:
        cursor.execute("UPDATE metric SET loss = 0")
    (tmp_path / "fresh").mkdir()

    told = rebuild(live, history, tmp_path / "fresh")
    next(told)
    told.close()

    assert queries.series(warehouse, make.RUN, "loss")[1].tolist() == [0, 0, 0]
    warehouse.close()
