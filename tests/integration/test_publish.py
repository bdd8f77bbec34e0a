"""Analysts read a copy of the warehouse with any DuckDB client, while the server writes."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from projections.warehouse import Warehouse
from projections.warehouse.publish import Publisher, publish
from tests import make
from tests.product import eventually


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    yield warehouse
    warehouse.close()


def counted(path: Path) -> tuple[int, int]:
    """How many rows of metrics a stranger finds, and at which position."""
    with duckdb.connect(str(path), read_only=True) as stranger:
        (rows,) = stranger.execute("SELECT count(*) FROM metrics").fetchall()[0]
        (position,) = stranger.execute("SELECT max(position) FROM tracking").fetchall()[0]
    return rows, position


def test_a_copy_holds_everything_up_to_its_position(warehouse: Warehouse, tmp_path: Path) -> None:
    """C55: the documented way for analysts works without a lock error."""
    history = make.recorded(make.submitted(), make.steps(to=60))
    warehouse.apply(history)

    position = publish(warehouse, tmp_path / "analytics.duckdb")

    assert position == 61
    assert counted(tmp_path / "analytics.duckdb") == (60, 61)


def test_readers_and_the_writer_never_fail_each_other(warehouse: Warehouse, tmp_path: Path) -> None:
    """C55: each copy is whole, and the live file stays locked against strangers."""
    copy = tmp_path / "analytics.duckdb"
    history = make.recorded(make.submitted(), make.steps(to=600))
    warehouse.apply(history[:1])
    publish(warehouse, copy)
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(counted(copy))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(1, 601, 60):
        warehouse.apply(history[start : start + 60])
        publish(warehouse, copy)
    done.set()
    for reader in readers:
        reader.join()

    assert len(seen) > 1
    assert all(rows == position - 1 for rows, position in seen)
    assert counted(copy) == (600, 601)
    assert duckdb_is_refused(tmp_path / "warehouse.duckdb")


def duckdb_is_refused(path: Path) -> bool:
    """Whether another process cannot open ``path``."""
    code = f"import duckdb; duckdb.connect({str(path)!r}, read_only=True)"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    return b"Could not set lock" in ended.stderr


def test_a_run_that_ended_is_published_at_once(warehouse: Warehouse, tmp_path: Path) -> None:
    copy = tmp_path / "analytics.duckdb"
    publisher = Publisher(warehouse, copy)
    publisher.start()
    history = make.recorded(make.submitted(), make.steps(to=3))
    warehouse.apply(history)
    eventually(copy.exists)

    warehouse.apply(make.recorded(make.completed(), after=history))

    eventually(lambda: counted(copy)[1] == 5)
    publisher.stop()
    assert publisher.failure is None


def test_what_somebody_waits_for_is_published_at_once(warehouse: Warehouse, tmp_path: Path) -> None:
    """`sql --fresh`; what the warehouse does not hold yet is waited for, and not for ever."""
    copy = tmp_path / "analytics.duckdb"
    publisher = Publisher(warehouse, copy)
    publisher.start()
    history = make.recorded(make.submitted(), make.steps(to=30))

    positions = []
    for end in (2, 9, 31):
        warehouse.apply(history[:end])
        assert publisher.wait_for(end, timeout=20)
        positions.append(counted(copy)[1])
    is_beyond = publisher.wait_for(32, timeout=0.5)

    publisher.stop()
    assert positions == [2, 9, 31]
    assert not is_beyond
    assert publisher.position() == 31


def test_a_copy_that_cannot_be_made_is_a_failure_that_info_shows(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    publisher = Publisher(warehouse, tmp_path / "nowhere" / "analytics.duckdb")
    publisher.start()
    warehouse.apply(make.recorded(make.submitted()))

    is_published = publisher.wait_for(1, timeout=600)  # nobody waits for a copy that has failed

    publisher.stop()
    assert not is_published
    assert publisher.failure is not None


def test_only_the_end_of_a_run_is_waited_for(warehouse: Warehouse, tmp_path: Path) -> None:
    """What a query does before it reads the copy: steps may be missing there, ends never."""
    copy = tmp_path / "analytics.duckdb"
    publisher = Publisher(warehouse, copy)
    publisher.start()
    history = make.recorded(make.submitted(), make.steps(to=3))
    warehouse.apply(history[:1])
    assert publisher.wait_for(1, timeout=20)

    warehouse.apply(history)
    assert publisher.wait_for_ends(timeout=0)
    warehouse.apply(make.recorded(make.completed(), after=history))
    assert publisher.wait_for_ends(timeout=20)

    publisher.stop()
    assert counted(copy) == (3, 5)


def test_a_copy_of_a_file_that_was_replaced_is_made_again(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """A projection that was made anew has come no further, and still is another one."""
    history = make.History(make.submitted(), make.steps(to=6))
    warehouse.apply(history.events)
    with warehouse.read() as cursor:
        cursor.execute("DELETE FROM metric")
    copy = tmp_path / "analytics.duckdb"
    publisher = Publisher(warehouse, copy)
    publisher.start()
    assert publisher.wait_for(7, 30)
    before = counted(copy)
    fresh = Warehouse(tmp_path / "fresh.duckdb")
    fresh.apply(history.events)

    warehouse.replace(fresh, history)

    assert publisher.wait_for(7, 30)
    assert (before, counted(copy)) == ((0, 7), (6, 7))
    publisher.stop()


def test_nobody_waits_for_a_publisher_that_is_not_at_work(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.apply(make.recorded(make.submitted()))
    publisher = Publisher(warehouse, tmp_path / "analytics.duckdb")

    assert not publisher.wait_for(1, timeout=3600)
