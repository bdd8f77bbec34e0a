"""One contract for every place where events are kept."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.persistence import (
    IntegrityError,
    NotSupportedError,
    OperationalError,
    StoredEvent,
)

from ledger.store import sqlite
from ledger.store.memory import MemoryRecorder
from ledger.store.recorder import LedgerRecorder
from ledger.store.sqlite import Database, SQLiteRecorder


@pytest.fixture(params=["memory", "sqlite", "sqlite in memory"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerRecorder]:
    if request.param == "memory":
        yield MemoryRecorder()
        return
    database = Database(tmp_path / "ledger.db" if request.param == "sqlite" else ":memory:")
    yield SQLiteRecorder(database)
    database.close()


def event(stream: str, version: int, topic: str = "t.v1") -> StoredEvent:
    return StoredEvent(stream, version, topic, f"{stream} {version}".encode())


def test_events_of_several_streams_are_stored_in_one_transaction(recorder: LedgerRecorder) -> None:
    recorder.insert_events([event("run/a", 1)])

    with pytest.raises(IntegrityError):
        recorder.insert_events([event("run/b", 1), event("run/a", 1)])

    assert recorder.select_events("run/b") == []
    assert recorder.max_notification_id() == 1


def test_positions_are_dense_and_rise_in_the_order_of_storing(recorder: LedgerRecorder) -> None:
    assert recorder.max_notification_id() is None

    first = recorder.insert_events([event("run/a", 1), event("run/b", 1)])
    second = recorder.insert_events([event("run/a", 2)])

    assert list(first or ()) == [1, 2]
    assert list(second or ()) == [3]
    assert [
        (each.id, each.originator_id, each.originator_version, each.state)
        for each in recorder.select_notifications(2, 10)
    ] == [(2, "run/b", 1, b"run/b 1"), (3, "run/a", 2, b"run/a 2")]


def test_large_events_come_in_pages_of_bounded_size(
    recorder: LedgerRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5,000 events with a megabyte of rollouts each, none of the ways to read makes a page."""
    monkeypatch.setattr(sqlite, "PAGE_BYTES", 2_500)
    monkeypatch.setattr(sqlite, "FETCHED", 2)
    versions = range(1, 13)
    recorder.insert_events([StoredEvent("run/a", n, "t.v1", bytes(1_000)) for n in versions])

    pages: dict[str, list[int]] = {"ledger": [], "stream": [], "family": []}
    for after in (0, 4, 8, 12):
        pages["ledger"].append(len(recorder.read_stored(after=after, limit=100)))
        pages["stream"].append(len(recorder.read_stream("run/a", after=after, limit=100)))
        pages["family"].append(len(recorder.select_family("run/a", gt=after, limit=100)))

    is_in_memory = isinstance(recorder, MemoryRecorder)  # where they are already
    wanted = [12, 8, 4, 0] if is_in_memory else [4, 4, 4, 0]  # two and two, until it is enough
    assert pages == dict.fromkeys(pages, wanted)


@pytest.mark.parametrize("version", [2, 4])
def test_a_stream_has_no_holes(recorder: LedgerRecorder, version: int) -> None:
    with pytest.raises(IntegrityError):
        recorder.insert_events([event("run/a", version)])

    assert recorder.select_events("run/a") == []


def test_a_stream_is_read_between_versions_in_both_directions(recorder: LedgerRecorder) -> None:
    recorder.insert_events([event("run/a", version) for version in range(1, 6)])

    forth = recorder.select_events("run/a", gt=1, lte=4)
    back = recorder.select_events("run/a", desc=True, limit=2)

    assert [each.originator_version for each in forth] == [2, 3, 4]
    assert [each.originator_version for each in back] == [5, 4]


def test_a_family_is_a_run_and_its_attempts_and_nobody_else(recorder: LedgerRecorder) -> None:
    recorder.insert_events(
        [
            event("run/b", 1),
            event("run/a", 1),
            event("run/a/a1", 1),
            event("run/ab", 1),
            event("run/a0", 1),
            event("run/a", 2),
        ]
    )

    family = recorder.select_family("run/a", gt=0, limit=10)

    assert [(each.originator_id, each.id) for each in family] == [
        ("run/a", 2),
        ("run/a/a1", 3),
        ("run/a", 6),
    ]
    assert [each.id for each in recorder.select_family("run/a", gt=2, limit=1)] == [3]
    assert [each.id for each in recorder.select_family("run/a", gt=0, limit=9, lte=5)] == [2, 3]


def test_notifications_are_found_by_topic(recorder: LedgerRecorder) -> None:
    recorder.insert_events(
        [
            event("run/a", 1, "run.submitted.v1"),
            event("run/a", 2, "run.step_reported.v1"),
            event("run/a", 3, "run.failed.v1"),
        ]
    )

    ends = recorder.select_notifications(1, 10, topics=["run.submitted.v1", "run.failed.v1"])
    steps = recorder.select_notifications(0, 10, topics=["run.step_reported.v1"], stop=2)

    assert [each.id for each in ends] == [1, 3]
    assert [each.id for each in steps] == [2]


def test_the_ledger_is_followed_by_position_and_not_by_subscription(
    recorder: LedgerRecorder,
) -> None:
    with pytest.raises(NotSupportedError, match="wait_beyond"):
        recorder.subscribe()


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "ledger.db")
    recorder = SQLiteRecorder(database)
    database.close()

    with pytest.raises(OperationalError, match="closed"):
        recorder.max_notification_id()
    with pytest.raises(OperationalError, match="closed"):
        recorder.insert_events([event("run/a", 1)])


def test_of_many_writers_of_one_version_one_wins(recorder: LedgerRecorder) -> None:
    """U6, C55: no locked error; the loser is told."""
    outcomes: list[bool] = []

    def write() -> None:
        for version in range(1, 51):
            try:
                recorder.insert_events([event("run/a", version)])
                outcomes.append(True)
            except IntegrityError:
                outcomes.append(False)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    versions = [each.originator_version for each in recorder.select_events("run/a")]
    assert versions == list(range(1, 51))
    assert outcomes.count(True) == 50
    assert outcomes.count(False) == 150
