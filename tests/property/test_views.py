"""Laws of what analysts read: over any history it says what the documents say."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ledger.events import Recorded
from projections import wire
from projections.documents import timing
from projections.documents.cost import PARTS
from projections.warehouse import Warehouse, clock
from tests.property.histories import families, histories, split
from tests.property.test_projections import HEAVY, documents, moved, runs_of

COST = [f"{part}_seconds" for part in PARTS]
TIMING = [f"{part}_seconds" for part in timing.PARTS]

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    """One for all examples: opening one takes longer than an example."""
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


def rows_of(
    warehouse: Warehouse, view: str, runs: Sequence[str], by: str = "position"
) -> dict[str, Rows]:
    """The rows of each run, in order."""
    found: dict[str, Rows] = {run_id: [] for run_id in runs}
    query = f"SELECT * FROM {view} WHERE list_contains($runs, run_id) ORDER BY {by}"
    for row in select(warehouse, query, runs=list(runs)):
        found[row["run_id"]].append(row)
    return found


def select(warehouse: Warehouse, query: str, **facts: Any) -> Rows:
    """The rows of a query by the names of its columns."""
    with warehouse.read() as cursor:
        found = cursor.execute(query, facts)
        names = [each[0] for each in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def moment(value: Any) -> str | None:
    return None if value is None else wire.moment(timing.millis(value))


def millis(row: dict[str, Any], names: list[str]) -> list[int]:
    return [round(1000 * row[name]) for name in names]


@HEAVY
@given(data=st.data(), history=histories())
def test_cost_and_timing_are_those_of_the_documents(
    warehouse: Warehouse, data: st.DataObject, history: list[Recorded]
) -> None:
    """S23, S60, S61: to the millisecond, for each attempt and in all, whatever the clocks say."""
    history = moved(history, warehouse.position())
    made, runs = documents(history, [history]), runs_of(history)
    for batch in data.draw(split(history)):
        warehouse.apply(batch)

    attempts = rows_of(warehouse, "attempt_cost", runs, "attempt")
    costs = rows_of(warehouse, "run_cost", runs, "run_id")
    times = rows_of(warehouse, "run_timing", runs, "run_id")

    for run_id in runs:
        record = made.get(run_id)
        assert record is not None
        assert [spent(each) for each in attempts[run_id]] == [
            said(each["cost"], each["attempt"]) for each in record["attempts"]
        ]
        (cost,) = costs[run_id]
        assert spent(cost | {"attempt": None}) == said(record["cost"])
        assert cost["device_kind"] == record["cost"]["deviceKind"]
        assert cost["attempts"] == len(record["attempts"])
        (time,) = times[run_id]
        assert millis(time, ["seconds", *TIMING]) == [
            record["timing"]["durationMillis"],
            *record["timing"]["split"].values(),
        ]
        assert [moment(time[name]) for name in ("submitted_at", "ended_at", "last_sign_at")] == [
            record["timing"][name] for name in ("startedAt", "endedAt", "lastSignAt")
        ]


def spent(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["attempt"], row["estimate"], *millis(row, ["device_seconds", *COST]))


def said(cost: dict[str, Any], attempt: int | None = None) -> tuple[Any, ...]:
    parts = [round(1000 * seconds) for seconds in cost["split"].values()]
    return (attempt, cost["estimate"], round(1000 * cost["deviceSeconds"]), *parts)


@HEAVY
@given(history=families())
def test_runs_attempts_phases_and_snapshots_are_those_of_the_documents(
    warehouse: Warehouse, history: list[Recorded]
) -> None:
    """I6, I7, S24."""
    history = moved(history, warehouse.position())
    made, runs = documents(history, [history]), runs_of(history)
    warehouse.apply(history)

    found = {
        view: rows_of(warehouse, view, runs, by)
        for view, by in (
            ("runs", "run_id"),
            ("attempts", "attempt"),
            ("phases", "position"),
            ("snapshots", "position"),
        )
    }

    for run_id in runs:
        record = made.get(run_id)
        assert record is not None
        assert [run(each) for each in found["runs"][run_id]] == [said_of_run(record)]
        assert [attempt(each) for each in found["attempts"][run_id]] == [
            said_of_attempt(each) for each in record["attempts"]
        ]
        assert [
            (each["phase"], moment(each["entered_at"]), moment(each["left_at"]))
            for each in found["phases"][run_id]
        ] == [
            (each["phase"], each["enteredAt"], each["leftAt"])
            for each in record["timing"]["visits"]
        ]
        assert [snapshot(each) for each in found["snapshots"][run_id]] == [
            said_of_snapshot(each) for each in made.snapshots(run_id)
        ]


def run(row: dict[str, Any]) -> list[Any]:
    names = ("phase", "project", "name", "description", "labels", "failure_code")
    return [*(row[name] for name in names), moment(row["ended_at"]), row["device_seconds"]]


def said_of_run(record: dict[str, Any]) -> list[Any]:
    names = ("phase", "project", "name", "description")
    failure = (record["failure"] or {}).get("code")
    closed = sum(round(1000 * (each["deviceSeconds"] or 0)) for each in record["attempts"]) / 1000
    more = [record.get("labels", {}), failure, record["timing"]["endedAt"], closed]
    return [*(record[name] for name in names), *more]


def attempt(row: dict[str, Any]) -> list[Any]:
    names = ("attempt", "devices", "launcher", "host", "outcome", "end_class", "code", "reason")
    more = ("exit_code", "signal", "rank", "first_step", "last_step", "device_seconds")
    began = (row["restored_step"], row["restored_snapshot_id"])
    times = [moment(row[name]) for name in ("opened_at", "closed_at", "released_at")]
    return [*(row[name] for name in (*names, *more)), began, *times]


def said_of_attempt(record: dict[str, Any]) -> list[Any]:
    names = ("attempt", "devices", "launcher", "host", "outcome", "endClass", "code", "reason")
    more = ("exitCode", "signal", "rank", "firstStep", "lastStep", "deviceSeconds")
    restored = record["restoredFrom"] or {}
    began = (restored.get("step"), restored.get("snapshotId"))
    released = record["lastSignAt"] if record["closedAt"] else None
    times = [record["openedAt"], record["closedAt"], released]
    return [*(record[name] for name in (*names, *more)), began, *times]


def snapshot(row: dict[str, Any]) -> list[Any]:
    names = ("snapshot_id", "attempt", "step", "epoch", "status", "restorable", "artifacts")
    more = ("size_bytes", "committed_bytes", "pinned", "damage", "held_by", "uri")
    times = [moment(row[name]) for name in ("committed_at", "swept_at")]
    return [*(row[name] for name in (*names, *more)), *times]


def said_of_snapshot(record: dict[str, Any]) -> list[Any]:
    names = ("snapshotId", "attempt", "step", "epoch", "status", "restorable", "artifacts")
    more = ("sizeBytes", "sizes", "pinned", "damage", "heldBy", "uri", "committedAt", "sweptAt")
    return [record[name] for name in (*names, *more)]


@HEAVY
@given(data=st.data(), history=families())
def test_every_event_is_one_row_however_little_of_it_is_remembered(
    warehouse: Warehouse, data: st.DataObject, history: list[Recorded]
) -> None:
    """I24: who, when and what. The time of a run is the same when it is read back from the file."""
    history = moved(history, warehouse.position())
    forgetful = Warehouse(":memory:")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "REMEMBERED", 0)
        for batch in data.draw(split(history)):
            forgetful.apply(batch)

    warehouse.apply(history)

    new = {"first": history[0].position}
    events = select(
        warehouse,
        "SELECT position, stream, version, topic, principal FROM events"
        " WHERE position >= $first ORDER BY position",
        **new,
    )
    assert [tuple(each.values()) for each in events] == [
        (position, each.originator_id, each.originator_version, each.TOPIC, each.principal)
        for position, each in history
    ]
    for table in ("event", "metric", "attempt_end"):
        query = f"SELECT * FROM {table} WHERE position >= $first ORDER BY position"
        assert repr(select(forgetful, query, **new)) == repr(select(warehouse, query, **new))
    forgetful.close()


@HEAVY
@given(history=histories())
def test_the_long_form_has_every_number_and_a_superseded_row_says_what_took_it_back(
    warehouse: Warehouse, history: list[Recorded]
) -> None:
    """S84, S86, U1."""
    history = moved(history, warehouse.position())
    runs = runs_of(history)
    warehouse.apply(history)

    current = rows_of(warehouse, "metrics", runs)
    long = rows_of(warehouse, "metrics_long", runs, "step")
    everything = rows_of(warehouse, "metrics_all_attempts", runs)
    restores = rows_of(warehouse, "restore", runs)

    for run_id in runs:
        numbers = [(row["step"], row["name"], wire.number(row["value"])) for row in long[run_id]]
        assert sorted(numbers, key=repr) == sorted(
            (
                (row["step"], name, value)
                for row in current[run_id]
                for name, value in numbers_of(row).items()
            ),
            key=repr,
        )
        for row in everything[run_id]:
            by = taken_back_by(row, restores[run_id])
            assert row["superseded"] == (by is not None)
            found = (row["superseded_by_attempt"], row["superseded_by_step"], row["superseded_at"])
            assert found == (by or (None, None, None))


def numbers_of(row: dict[str, Any]) -> dict[str, float | str]:
    """Every number of a row of metrics, under its name."""
    apart = {"run_id", "step", "attempt", "position", "happened_at", "extra", "reward_terms"}
    core = {name: value for name, value in row.items() if name not in apart and value is not None}
    terms = {f"terms:{name}": value for name, value in (row["reward_terms"] or {}).items()}
    return wire.numbers(core | row["extra"] | terms)


def taken_back_by(row: dict[str, Any], restores: Rows) -> tuple[Any, ...] | None:
    """The first restore after a row that went below its step."""
    for each in restores:
        if each["position"] > row["position"] and each["step"] < row["step"]:
            return each["attempt"], each["step"], each["happened_at"]
    return None
