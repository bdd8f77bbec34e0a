"""The warehouse's file: owned by one process, exactly once, disposable."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from projections.errors import InUseError, ProjectionError
from projections.warehouse import Warehouse, queries, store
from tests import make


def losses(warehouse: Warehouse) -> list[int]:
    return [int(step) for step in queries.series(warehouse, make.RUN, "loss")[0]]


def test_a_batch_applied_twice_changes_nothing(tmp_path: Path) -> None:
    history = make.History(make.training(), make.steps(20))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")

    warehouse.apply(history.events)
    warehouse.apply(history.events)
    warehouse.apply(history.events[3:9])

    assert losses(warehouse) == list(range(1, 21))
    assert warehouse.position() == 28
    warehouse.close()


def test_an_opened_file_goes_on_at_its_position(tmp_path: Path) -> None:
    history = make.History(make.training(), make.steps(20))
    first = Warehouse(tmp_path / "warehouse.duckdb")
    first.apply(history.events[:18])
    first.close()

    again = Warehouse(tmp_path / "warehouse.duckdb")

    assert again.position() == 18
    again.apply(history.events)
    assert losses(again) == list(range(1, 21))
    again.close()


def test_a_batch_that_fails_leaves_rows_and_position_alone(tmp_path: Path) -> None:
    """Rows and position commit together, or neither."""
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.apply(history.events)
    beyond = make.recorded(make.step(4), make.step(10**30), after=history.events)

    with pytest.raises(OverflowError):
        warehouse.apply(beyond)

    assert losses(warehouse) == [1, 2, 3]
    assert warehouse.position() == 11
    warehouse.apply(history.add(make.step(4)))
    assert losses(warehouse) == [1, 2, 3, 4]
    warehouse.close()


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    """Also one whose file system would let it in: the lock stands beside the file."""
    path = tmp_path / "warehouse.duckdb"
    warehouse = Warehouse(path)
    second = (
        "from pathlib import Path; from projections.warehouse import Warehouse; "
        f"Warehouse(Path({str(path)!r}))"
    )

    answer = subprocess.run(
        [sys.executable, "-c", second], capture_output=True, text=True, check=False
    )

    assert answer.returncode == 1
    assert "InUseError" in answer.stderr
    with pytest.raises(InUseError, match="is open in process"):
        Warehouse(path)
    warehouse.close()


def test_a_closed_warehouse_can_be_opened_by_the_next_owner(tmp_path: Path) -> None:
    Warehouse(tmp_path / "warehouse.duckdb").close()
    Warehouse(tmp_path / "warehouse.duckdb").close()


def test_a_file_that_a_stranger_reads_is_in_use_and_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    Warehouse(path).close()
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb; c = duckdb.connect({str(path)!r}); print(1, flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert reader.stdout is not None
    reader.stdout.readline()

    with pytest.raises(InUseError, match="Could not set lock"):
        Warehouse(path)

    reader.communicate(b"\n")
    assert path.exists()
    Warehouse(path).close()


def test_a_damaged_file_is_moved_aside_and_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    path.write_bytes(b"no database " * 1000)

    warehouse = Warehouse(path)

    assert warehouse.position() == 0
    assert (tmp_path / "warehouse.duckdb.bad").read_bytes().startswith(b"no database")
    warehouse.close()


def test_a_file_of_another_schema_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warehouse.duckdb"
    old = Warehouse(path)
    old.apply(make.recorded(make.training()))
    old.close()
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)

    warehouse = Warehouse(path)

    assert warehouse.position() == 0
    warehouse.close()


def test_the_file_has_the_format_that_older_clients_read(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")

    with warehouse.read() as cursor:
        ((tags,),) = cursor.execute(
            "SELECT tags FROM duckdb_databases() WHERE database_name = 'warehouse'"
        ).fetchall()

    assert tags["storage_version"].startswith("v1.5.0")
    warehouse.close()


def test_an_instance_that_died_is_opened_again(tmp_path: Path) -> None:
    """The failing batch is told; the same file takes it the next time."""
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.apply(history.events[:9])
    warehouse._writer.close()

    with pytest.raises(duckdb.ConnectionException):
        warehouse.apply(history.events)

    assert warehouse.position() == 9
    warehouse.apply(history.events)
    assert losses(warehouse) == [1, 2, 3]
    warehouse.close()


def test_a_file_on_which_instances_die_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second death in a row is the file's fault; the ledger fills a new one."""
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.apply(history.events[:9])

    def die(*_: object) -> None:
        raise duckdb.FatalException("the instance is dead")

    with monkeypatch.context() as patched:
        patched.setattr(store.columns, "append", die)
        for _ in range(2):
            with pytest.raises(duckdb.FatalException):
                warehouse.apply(history.events)

    assert warehouse.position() == 0
    assert (tmp_path / "warehouse.duckdb.bad").exists()
    warehouse.apply(history.events)
    assert losses(warehouse) == [1, 2, 3]
    warehouse.close()


def test_a_warehouse_in_memory_that_died_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    history = make.History(make.training(), make.steps(3))
    warehouse = Warehouse(":memory:")

    def die(*_: object) -> None:
        raise duckdb.FatalException("the instance is dead")

    with monkeypatch.context() as patched:
        patched.setattr(store.columns, "append", die)
        for _ in range(2):
            with pytest.raises(duckdb.FatalException):
                warehouse.apply(history.events)

    warehouse.apply(history.events)
    assert losses(warehouse) == [1, 2, 3]
    warehouse.close()


def test_a_reader_that_is_slow_does_not_stop_the_writer(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    history = make.History(make.training(), make.steps(3))
    warehouse.apply(history.events)

    with warehouse.read() as cursor:
        cursor.execute("SELECT * FROM metric").fetchone()
        warehouse.apply(history.add(make.step(4)))

    assert losses(warehouse) == [1, 2, 3, 4]
    warehouse.close()


def test_a_warehouse_in_memory_cannot_be_swapped() -> None:
    live, fresh = Warehouse(":memory:"), Warehouse(":memory:")

    with pytest.raises(ProjectionError):
        live.replace(fresh, make.History())

    live.close()
    fresh.close()
