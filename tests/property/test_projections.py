"""Laws of projections, over any legal history."""

import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from ledger.events import (
    BranchCreated,
    BranchRefused,
    BranchRequested,
    Event,
    Origin,
    Recorded,
    Restored,
    RunSubmitted,
    SnapshotCommitted,
    SnapshotHeld,
    SnapshotOffered,
    SnapshotRejected,
    SnapshotReleased,
    SourceHeld,
    StepReported,
    ValidationReported,
    run_stream,
    snapshot_stream,
)
from ledger.run import RunState, evolve
from ledger.store.sqlite import Database
from projections import wire
from projections.compare import differences
from projections.documents import Documents, milestones
from projections.documents.tables import Branching, Whole
from projections.warehouse import Warehouse, line, queries
from projections.warehouse.queries import Steps, Values
from tests import make
from tests.property.histories import families, histories, naive_series, split
from tests.property.spending import spending

VIEWS = (
    *("metrics_all", "validations_all", "rollouts_all", "phases", "restore", "attempt_end"),
    *("branches", "branch_state"),
)
EXAMPLES = count(1)
HEAVY = settings(max_examples=15)  # a batch into DuckDB takes about 10 ms


@pytest.fixture(scope="module")
def warehouses() -> Iterator[tuple[Warehouse, Warehouse]]:
    """Two for all examples: opening one takes longer than an example."""
    pair = Warehouse(":memory:"), Warehouse(":memory:")
    for each in pair:
        each.make_views()
    yield pair
    for each in pair:
        each.close()


def source_of(history: list[Recorded]) -> make.History:
    source = make.History()
    source.events = history
    return source


def runs_of(history: list[Recorded]) -> list[str]:
    return [each.run_id for each in submissions(history)]


def documents(history: list[Recorded], batches: list[list[Recorded]]) -> Documents:
    made = Documents(Database(":memory:"), source_of(history))
    for batch in batches:
        made.apply(batch)
    return made


def rows_of(made: Documents, history: list[Recorded]) -> list[Whole | Branching]:
    return [*(made.whole(run_id) for run_id in runs_of(history)), made.branching()]


@given(data=st.data(), history=histories())
def test_documents_are_the_same_in_any_batching(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """A projection is a fold: one by one, in batches, or rebuilt at once, bit for bit."""
    at_once = documents(history, [history])
    one_by_one = documents(history, [[each] for each in history])
    in_batches = documents(history, data.draw(split(history)))

    expected = rows_of(at_once, history)

    assert rows_of(one_by_one, history) == expected
    assert rows_of(in_batches, history) == expected
    assert at_once.position() == one_by_one.position() == in_batches.position() == len(history)


@given(history=histories(), apart=st.integers(1, 12))
def test_a_restore_leaves_the_same_wherever_earlier_documents_are_kept(
    history: list[Recorded], apart: int
) -> None:
    """S86, D6: what it reads again begins at one of them, and its result does not tell which."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(milestones, "EVENTS", apart)
        often = documents(history, [[each] for each in history])
        patched.setattr(milestones, "EVENTS", len(history))
        never = documents(history, [history])

    assert states_of(often, history) == states_of(never, history)


def states_of(made: Documents, history: list[Recorded]) -> list[dict[str, Any]]:
    """All that documents say, but for how much came since one was kept."""
    rows = [made.whole(run_id).row for run_id in runs_of(history)]
    return [{**row.state, "milestone": None} for row in rows if row is not None]


@given(history=histories())
def test_a_document_says_what_a_fold_that_really_deletes_says(history: list[Recorded]) -> None:
    """S14, S26, S86, U11: loss, counts of what is not finite, and the newest numbers."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        rows = naive_series(history, run_id)
        assert record["results"]["trainingLoss"] == naive_loss(rows)
        told = [row for row in rows if row[1]]
        latest = {"step": told[-1][0], "measured": wire.numbers(told[-1][1])} if told else None
        assert record["latest"] == latest
        assert record["results"]["validationLoss"] == naive_validation(history, run_id)


def naive_loss(rows: list[tuple[int, dict[str, Any]]]) -> dict[str, Any] | None:
    losses = [row["loss"] for _, row in rows if "loss" in row]
    finite = [loss for loss in losses if math.isfinite(loss)]
    if not losses:
        return None
    return {
        "first": wire.number(losses[0]),
        "last": wire.number(losses[-1]),
        "mean": wire.number(in_order(finite) / len(finite)) if finite else None,
        "steps": len(finite),
        "notFinite": len(losses) - len(finite),
    }


def in_order(values: list[float]) -> float:
    """The sum as it is made one by one (``sum`` itself is more exact since Python 3.12)."""
    total = 0.0
    for value in values:
        total += value
    return total


def naive_validation(history: list[Recorded], run_id: str) -> Any:
    """The last current validation that measured a loss."""
    rows: list[ValidationReported] = []
    for _, event in history:
        if event.run_id == run_id and isinstance(event, Restored):
            rows = [row for row in rows if row.step <= event.step]
        elif event.run_id == run_id and isinstance(event, ValidationReported):
            rows.append(event)
    for row in reversed(rows):
        for name in ("eval_loss", "loss", "eval_g0_loss"):
            if name in row.measured:
                value = row.measured[name]
                named = "g0" if name == "eval_g0_loss" else None
                return {
                    "value": wire.number(value),
                    "step": row.step,
                    "dataset": row.dataset or named,
                    "perplexity": perplexity(value),
                }
    return None


def perplexity(loss: float) -> float | str | None:
    return None if 709.8 < loss < math.inf else wire.number(math.exp(loss))


@given(history=histories())
def test_times_add_up_and_never_run_backwards(history: list[Recorded]) -> None:
    """S23, S24: whatever the clocks say."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        timing = record["timing"]
        assert sum(timing["phaseMillis"].values()) == timing["durationMillis"] >= 0
        assert sum(timing["split"].values()) == timing["durationMillis"]
        assert sum(visit["millis"] for visit in timing["visits"]) == timing["durationMillis"]
        assert all(visit["millis"] >= 0 for visit in timing["visits"])


@given(data=st.data(), history=histories())
def test_cost_never_shrinks_when_the_estimate_is_left_aside(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """D5: no restore gives back what was spent."""
    cut = data.draw(st.integers(0, len(history)))
    earlier = documents(history, [history[:cut]])
    later = documents(history, [history])

    for run_id in runs_of(history[:cut]):
        before, after = earlier.get(run_id), later.get(run_id)
        assert before is not None
        assert after is not None
        assert spent(after) >= spent(before)


def spent(record: dict[str, Any]) -> float:
    return sum(each["deviceSeconds"] or 0.0 for each in record["attempts"])


@given(history=histories())
def test_what_the_devices_were_held_for_adds_up_exactly(history: list[Recorded]) -> None:
    """S60, S61, I6: to the millisecond, for every attempt that is over and for the run."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        for attempt in record["attempts"]:
            split = millis(attempt["cost"]["split"])
            assert all(part >= 0 for part in split.values())
            if not attempt["cost"]["estimate"]:
                assert sum(split.values()) == round(1000 * attempt["cost"]["deviceSeconds"])
                assert attempt["cost"]["deviceSeconds"] == attempt["deviceSeconds"]
        whole = millis(record["cost"]["split"])
        parts = [millis(each["cost"]["split"]) for each in record["attempts"]]
        assert whole == {part: sum(each[part] for each in parts) for part in whole}
        held = sum(round(1000 * each["cost"]["deviceSeconds"]) for each in record["attempts"])
        assert round(1000 * record["cost"]["deviceSeconds"]) == held


def millis(split: dict[str, float]) -> dict[str, int]:
    return {part: round(1000 * seconds) for part, seconds in split.items()}


@given(history=histories())
def test_useful_and_repeated_time_are_those_of_a_fold_that_remembers_every_update(
    history: list[Recorded],
) -> None:
    """S61: what is looked up at a restore is what was known all along."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        record = made.get(run_id)
        assert record is not None
        found = [
            millis(each["cost"]["split"]) | {"superseded": each["superseded"]}
            for each in record["attempts"]
        ]
        assert found == spending(history, run_id)


@given(data=st.data(), history=histories())
def test_time_that_an_attempt_trained_is_never_given_back(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """D5: it may turn out to be repeated, and that for good."""
    cut = data.draw(st.integers(0, len(history)))
    earlier = documents(history, [history[:cut]])
    later = documents(history, [history])

    for run_id in runs_of(history[:cut]):
        before, after = earlier.get(run_id), later.get(run_id)
        assert before is not None
        assert after is not None
        for old, new in zip(before["attempts"], after["attempts"], strict=False):
            past, present = millis(old["cost"]["split"]), millis(new["cost"]["split"])
            assert present["repeatedSeconds"] >= past["repeatedSeconds"]
            assert sum(present.values()) >= sum(past.values())
            trained = past["usefulSeconds"] + past["repeatedSeconds"]
            assert present["usefulSeconds"] + present["repeatedSeconds"] >= trained


@given(history=histories())
def test_the_saved_step_is_the_one_that_the_rules_would_go_on_from(
    history: list[Recorded],
) -> None:
    """S27, C26: and every snapshot is what the rules take it for."""
    made = documents(history, [history])

    for run_id, state in states(history).items():
        record = made.get(run_id)
        assert record is not None
        saved = state.saved
        assert record["savedStep"] == (saved.step if saved else None)
        found = record["saved"]["snapshotId"] if record["saved"] else None
        assert found == (saved.snapshot_id if saved else None)
        assert [
            (
                each["snapshotId"],
                each["step"],
                frozenset(each["artifacts"]),
                each["restorable"],
                each["pinned"],
                each["damage"] is not None,
            )
            for each in made.snapshots(run_id)
        ] == [
            (
                each.snapshot_id,
                each.step,
                each.artifacts,
                each.is_restorable,
                each.is_pinned,
                each.is_damaged,
            )
            for each in state.snapshots
        ]


@given(history=families())
def test_what_a_child_does_never_changes_its_parent(history: list[Recorded]) -> None:
    """S137, C22: every record is, byte by byte, what its own events alone make it."""
    made = documents(history, [history])

    for run_id in runs_of(history):
        own = [each for each in history if of_run(each, run_id)]
        alone = documents(own, [own])
        assert orjson.dumps(made.get(run_id)) == orjson.dumps(alone.get(run_id))
        assert made.whole(run_id) == alone.whole(run_id)


def of_run(recorded: Recorded, run_id: str) -> bool:
    stream = recorded.event.originator_id
    return stream == run_stream(run_id) or stream.startswith(f"{run_stream(run_id)}/")


@given(history=families())
def test_trees_and_branches_are_those_of_a_fold_that_remembers_everything(
    history: list[Recorded],
) -> None:
    """S28, S157, I7, I12, I13."""
    made = documents(history, [history])

    origins = {each.run_id: each.origin for each in submissions(history)}
    for run_id, origin in origins.items():
        found = [each["runId"] for each in made.ancestry(run_id)]
        assert found == naive_ancestry(origins, run_id)
        related = [each for each in origins if naive_ancestry(origins, each)[0] == found[0]]
        assert sorted(runs_in(made.tree(run_id))) == sorted(related)
        record = made.get(run_id)
        assert record is not None
        assert (record["origin"] or {}).get("parent") == (origin.parent if origin else None)
        asked = [(each["childRunId"], each["state"]) for each in made.branches(run_id)]
        assert asked == naive_branches(history, run_id)
        for snapshot in made.snapshots(run_id):
            holders = naive_holders(history, run_id, snapshot["snapshotId"])
            assert snapshot["heldBy"] == sorted(holders)


def submissions(history: list[Recorded]) -> list[RunSubmitted]:
    return [each.event for each in history if isinstance(each.event, RunSubmitted)]


def naive_ancestry(origins: dict[str, Origin | None], run_id: str) -> list[str]:
    found = [run_id]
    while (origin := origins[found[0]]) is not None:
        found.insert(0, origin.parent)
    return found


def runs_in(node: dict[str, Any] | None) -> list[str]:
    assert node is not None
    return [node["runId"], *(run for child in node["children"] for run in runs_in(child))]


def naive_branches(history: list[Recorded], parent: str) -> list[tuple[str, str]]:
    states: dict[str, tuple[str, str]] = {}
    for _, event in history:
        token = event.originator_id
        match event:
            case BranchRequested() if event.origin.parent == parent:
                states[token] = (event.child, "requested")
            case SourceHeld() if token in states:
                states[token] = (states[token][0], "preparing")
            case BranchCreated() if token in states:
                states[token] = (event.child, "created")
            case BranchRefused() if token in states:
                states[token] = (states[token][0], "refused")
    return list(states.values())[::-1]


def naive_holders(history: list[Recorded], run_id: str, snapshot_id: str) -> set[str]:
    holders: set[str] = set()
    for _, event in history:
        if event.originator_id == snapshot_stream(snapshot_id):
            assert isinstance(event, SnapshotHeld | SnapshotReleased)
            assert event.run == run_id
            change = holders.add if isinstance(event, SnapshotHeld) else holders.discard
            change(event.holder)
    return holders


def states(history: list[Recorded]) -> dict[str, RunState]:
    """What the rules know of every run."""
    known: dict[str, RunState] = {}
    for _, event in history:
        if event.originator_id == run_stream(event.run_id):
            known[event.run_id] = evolve(known.get(event.run_id), event)
    return known


@HEAVY
@given(data=st.data(), history=histories())
def test_the_warehouse_is_the_same_in_any_batching_and_equals_a_fold_that_really_deletes(
    warehouses: tuple[Warehouse, Warehouse],
    data: st.DataObject,
    history: list[Recorded],
) -> None:
    """S86, C32, C35, D6: any history of steps and restores, in any batching."""
    at_once, in_batches = warehouses
    history = moved(history, max(each.position() for each in warehouses))

    at_once.apply(history)
    for batch in data.draw(split(history)):
        in_batches.apply(batch)

    for run_id in runs_of(history):
        expected = [(step, wire.numbers(row)) for step, row in naive_series(history, run_id)]
        for warehouse in warehouses:
            found = queries.metrics(warehouse, run_id)
            assert [(row["step"], row["measured"]) for row in found] == expected
            assert loss_of(warehouse, run_id) == [
                (step, row["loss"]) for step, row in expected if "loss" in row
            ]
        taken_back = queries.metrics(at_once, run_id, superseded=True)
        assert [
            (row["step"], row["supersededBy"]["position"])
            for row in taken_back
            if row.get("superseded")
        ] == naive_superseded(history, run_id)
    assert all_rows(at_once, history) == all_rows(in_batches, history)


@settings(max_examples=30)
@given(history=families())
def test_a_line_is_what_its_runs_had_when_they_were_left(
    warehouses: tuple[Warehouse, Warehouse], history: list[Recorded]
) -> None:
    """I13, D5: whatever a parent went back from before or after that."""
    warehouse, _ = warehouses
    history = moved(history, warehouse.position())
    warehouse.apply(history)
    made = documents(history, [history])

    for run_id in runs_of(history):
        found = line.metrics(warehouse, made.ancestry(run_id))
        expected = [(step, wire.numbers(row)) for step, row in naive_line(history, run_id)[1]]
        assert [(row["step"], row["measured"]) for row in found] == expected
        losses = [(step, row["loss"]) for step, row in expected if "loss" in row]
        assert told(*line.series(warehouse, made.ancestry(run_id), "loss")) == losses


@settings(max_examples=20)
@given(history=families(), data=st.data())
def test_a_line_as_of_a_position_is_what_it_was_then(
    warehouses: tuple[Warehouse, Warehouse], history: list[Recorded], data: st.DataObject
) -> None:
    """I13: whatever a run of it went back from later."""
    warehouse, _ = warehouses
    history = moved(history, warehouse.position())
    warehouse.apply(history)
    made = documents(history, [history])
    then = history[: data.draw(st.integers(1, len(history)))]
    end = then[-1].position

    for run_id in runs_of(then):
        losses = [(step, row["loss"]) for step, row in naive_line(then, run_id)[1] if "loss" in row]
        found = line.series(warehouse, made.ancestry(run_id, end), "loss", upto=end)
        assert told(*found) == [(step, wire.number(loss)) for step, loss in losses]


def naive_line(
    history: list[Recorded], run_id: str, left: Origin | None = None
) -> tuple[int, list[tuple[int, dict[str, Any]]]]:
    """The line of a run, to where a child ``left`` it, and how many updates came before its own."""
    own = naive_series(history, run_id) if left is None else naive_source(history, left)
    (origin,) = (each.origin for each in submissions(history) if each.run_id == run_id)
    if origin is None:
        return 0, own
    before, given = naive_line(history, origin.parent, origin)
    before += origin.step
    return before, [*given, *((before + step, row) for step, row in own)]


def naive_source(history: list[Recorded], source: Origin) -> list[tuple[int, dict[str, Any]]]:
    """Updates of a parent that are in a snapshot, by a fold that stops to go back once it is."""
    life = [each for each in history if of_run(each, source.parent)]
    offers = [each.position for each in life if isinstance(each.event, SnapshotOffered)]
    decided = [e for _, e in life if isinstance(e, SnapshotCommitted | SnapshotRejected)]
    ids = [getattr(each, "snapshot_id", None) for each in decided]
    written, left_at = offers[ids.index(source.snapshot_id)], source.step
    rows: list[tuple[int, dict[str, Any]]] = []
    for position, event in life:
        if isinstance(event, Restored) and position < written:
            rows = [row for row in rows if row[0] <= event.step]
        elif isinstance(event, Restored):
            left_at = min(left_at, event.step)
        elif isinstance(event, StepReported) and (position < written or event.step <= left_at):
            if not rows or rows[-1][0] != event.step:
                rows.append((event.step, {}))
            rows[-1][1].update(event.measured)
    return [row for row in rows if row[0] <= source.step]


def naive_superseded(history: list[Recorded], run_id: str) -> list[tuple[int, int]]:
    """Updates that were taken back, and the restore that did it first; in order of steps."""
    updates: list[tuple[int, int]] = []
    gone: list[tuple[int, int, int]] = []
    for position, event in history:
        if event.run_id == run_id and isinstance(event, Restored):
            gone += [(step, at, position) for step, at in updates if step > event.step]
            updates = [each for each in updates if each[0] <= event.step]
        elif event.run_id == run_id and isinstance(event, StepReported):
            is_new = not updates or updates[-1][0] != event.step
            updates += [(event.step, position)] if is_new else []
    return [(step, position) for step, _, position in sorted(gone)]


def moved(history: list[Recorded], start: int) -> list[Recorded]:
    """The same history under other names, beyond position ``start``."""
    unique = next(EXAMPLES)
    return [
        Recorded(start + position, renamed(event, f"{unique}-run-")) for position, event in history
    ]


def renamed(event: Event, prefix: str) -> Event:
    """The event with other names of runs, wherever it says one."""
    names = ("originator_id", "child", "run", "holder")
    said = {name: getattr(event, name) for name in names if hasattr(event, name)}
    changes: dict[str, Any] = {name: text.replace("run-", prefix) for name, text in said.items()}
    origin = getattr(event, "origin", None)
    if origin is not None:
        parent = origin.parent.replace("run-", prefix)
        changes["origin"] = origin.model_copy(update={"parent": parent})
    return event.model_copy(update=changes)


def loss_of(warehouse: Warehouse, run_id: str) -> list[tuple[int, float | str]]:
    return told(*queries.series(warehouse, run_id, "loss"))


def told(steps: Steps, values: Values) -> list[tuple[int, float | str]]:
    return [
        (step, wire.number(value))
        for step, value in zip(steps.tolist(), values.tolist(), strict=True)
    ]


def all_rows(warehouse: Warehouse, history: list[Recorded]) -> str:
    """Every row of these runs, superseded ones too, as text (NaN is NaN)."""
    first = history[0].position
    with warehouse.read() as cursor:
        return repr(
            [
                cursor.execute(
                    f"SELECT * FROM {view} WHERE position >= ? ORDER BY position", [first]
                ).fetchall()
                for view in VIEWS
            ]
        )


@settings(max_examples=4)
@given(data=st.data(), history=histories())
def test_rebuilt_projections_equal_the_live_ones(
    data: st.DataObject, history: list[Recorded]
) -> None:
    """Same events, same rows: a comparison with a fresh replay finds nothing."""
    batches = data.draw(split(history))
    made, warehouse = documents(history, batches), Warehouse(":memory:")
    for batch in batches:
        warehouse.apply(batch)

    found = differences(source_of(history), made, warehouse)

    warehouse.close()
    assert found == []
