"""The warehouse: what series of a run say, through any history of restores."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from projections.warehouse import Warehouse, queries
from tests import make


@pytest.fixture(scope="module")
def shared() -> Iterator[Warehouse]:
    """One warehouse for all tests of this module: each test has runs of its own."""
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


class Told:
    """A run in a warehouse that earlier tests have used as well."""

    def __init__(self, warehouse: Warehouse, run: str) -> None:
        self.warehouse, self.run = warehouse, run

    def tell(self, *made: make.Made) -> None:
        start = self.warehouse.position()
        events = [each._replace(position=start + each.position) for each in make.recorded(*made)]
        self.warehouse.apply(events)

    def series(self, field: str) -> list[tuple[int, float]]:
        steps, values = queries.series(self.warehouse, self.run, field)
        return list(zip(steps.tolist(), values.tolist(), strict=True))

    def metrics(
        self, *, fields: Any = None, limit: int | None = None, **asked: Any
    ) -> list[dict[str, Any]]:
        if limit is not None:
            page = queries.page(self.warehouse, self.run, most=10**9, limit=limit, **asked)
            asked["between"] = (page.first, page.last)
        return queries.metrics(self.warehouse, self.run, fields=fields, **asked)

    def validations(self, **asked: Any) -> list[dict[str, Any]]:
        return queries.validations(self.warehouse, self.run, **asked)

    def select(self, query: str) -> list[tuple[Any, ...]]:
        with self.warehouse.read() as cursor:
            return cursor.execute(query, [self.run]).fetchall()


@pytest.fixture
def run(shared: Warehouse, request: pytest.FixtureRequest) -> Told:
    return Told(shared, request.node.name)


def steps(run: Told, first: int, last: int, plus: float = 0.0) -> list[make.Made]:
    """Updates whose loss is their step, and more."""
    return [make.step(n, run=run.run, loss=n + plus) for n in range(first, last + 1)]


def test_a_restore_to_step_40_hides_the_metrics_from_41_on(run: Told) -> None:
    """S86: the series reflects the run's current progress."""
    run.tell(make.steps(60, run=run.run))

    run.tell(make.restored(40, run=run.run), make.step(41, run=run.run, attempt=2, loss=0.25))

    assert run.series("loss")[38:] == [(39, 1 / 39), (40, 1 / 40), (41, 0.25)]
    assert [row["attempt"] for row in run.metrics()[38:]] == [1, 1, 2]


def test_rolled_back_and_run_again_has_130_rows(run: Told) -> None:
    """C32: 1-125, back to 120, then 121-130 anew."""
    run.tell(steps(run, 1, 125), make.restored(120, attempt=1, run=run.run))
    between = run.series("loss")

    run.tell(steps(run, 121, 130, plus=1000))

    assert len(between) == 120
    series = run.series("loss")
    assert len(series) == 130
    assert series[119:122] == [(120, 120.0), (121, 1121.0), (122, 1122.0)]
    superseded = [row for row in run.metrics(superseded=True) if row.get("superseded")]
    assert [(row["step"], row["measured"]["loss"]) for row in superseded] == [
        (n, float(n)) for n in range(121, 126)
    ]


def test_nested_restores_leave_110_rows(run: Told) -> None:
    """C32: restore 120, on to 123, restore 100, on to 110."""
    run.tell(
        steps(run, 1, 125),
        make.restored(120, attempt=1, run=run.run),
        steps(run, 121, 123, plus=1000),
        make.restored(100, attempt=1, run=run.run),
        steps(run, 101, 110, plus=2000),
    )

    series = run.series("loss")
    assert len(series) == 110
    assert series[98:102] == [(99, 99.0), (100, 100.0), (101, 2101.0), (102, 2102.0)]
    assert len(run.metrics(superseded=True)) == 125 + 3 + 10
    assert run.select("SELECT count(*) FROM metrics_all WHERE run_id = ?") == [(138,)]
    assert run.select("SELECT count(*) FROM metrics WHERE run_id = ?") == [(110,)]


def test_superseded_updates_stand_before_those_that_came_in_their_place(run: Told) -> None:
    """U1: superseded points stay readable, and say so."""
    start = run.warehouse.position()
    run.tell(
        make.step(1, run=run.run, loss=1.0),
        make.step(2, run=run.run, loss=2.0),
        make.restored(1, attempt=1, run=run.run, at=7),
        make.step(2, run=run.run, loss=2.5),
    )

    assert run.metrics(superseded=True) == [
        {"step": 1, "attempt": 1, "measured": {"loss": 1.0}},
        {
            "step": 2,
            "attempt": 1,
            "measured": {"loss": 2.0},
            "superseded": True,
            "supersededBy": {
                "attempt": 1,
                "step": 1,
                "position": start + 3,
                "at": "2026-12-01T08:00:07.000Z",
            },
        },
        {"step": 2, "attempt": 1, "measured": {"loss": 2.5}},
    ]


def test_what_was_taken_back_names_the_first_restore_that_did_it(run: Told) -> None:
    """U1, C32, nested: 121-123 of attempt 2 fell to the third one, 121-125 of the first did not."""
    run.tell(
        steps(run, 1, 125),
        make.begun_from(120, 2, run.run),
        [make.step(n, attempt=2, run=run.run, loss=n + 1000) for n in range(121, 124)],
        make.begun_from(100, 3, run.run),
        [make.step(n, attempt=3, run=run.run, loss=n + 2000) for n in range(101, 111)],
    )

    gone = [row for row in run.metrics(superseded=True) if row.get("superseded")]
    by = {(row["attempt"], row["step"]): row["supersededBy"] for row in gone}
    assert {step: by[1, step]["attempt"] for step in (101, 120, 121, 125)} == {
        101: 3,
        120: 3,
        121: 2,
        125: 2,
    }
    assert {(by[2, step]["attempt"], by[2, step]["step"]) for step in (121, 122, 123)} == {(3, 100)}
    assert len(gone) == 25 + 3
    assert len(run.series("loss")) == 110


def test_between_a_restore_and_the_first_new_update_the_series_ends_at_the_restored_step(
    run: Told,
) -> None:
    """D6, C32, S86: nobody ever sees the dead tail."""
    run.tell(steps(run, 1, 60), make.validation(60, run=run.run, eval_loss=1.0))

    run.tell(
        make.opened(2, run.run, snapshot_id=make.snapshot_id("40")),
        make.begun_from(40, 2, run.run, snapshot_id=make.snapshot_id("40")),
    )

    assert run.series("loss") == [(n, float(n)) for n in range(1, 41)]
    assert run.metrics(limit=1)[0]["step"] == 40
    assert run.validations() == []
    assert run.select("SELECT max(step) FROM metrics WHERE run_id = ?") == [(40,)]


def test_after_a_restore_to_the_start_nothing_counts(run: Told) -> None:
    """U1: and everything can still be read."""
    run.tell(steps(run, 1, 20), make.begun_from(0, 2, run.run))

    assert run.series("loss") == []
    assert len(run.metrics(superseded=True)) == 20


def test_an_update_that_is_made_again_after_a_restore_counts_once(run: Told) -> None:
    """U2: in a new attempt that is normal, and its own value is the one that counts."""
    run.tell(
        steps(run, 1, 57),
        make.begun_from(40, 2, run.run),
        [make.step(n, attempt=2, run=run.run, loss=n + 0.5) for n in range(41, 61)],
    )

    series = run.series("loss")
    assert [step for step, _ in series] == list(range(1, 61))
    assert series[39:42] == [(40, 40.0), (41, 41.5), (42, 42.5)]
    assert [row["attempt"] for row in run.metrics(between=(40, 42))] == [1, 2, 2]
    assert len(run.metrics(superseded=True)) == 60 + 17


def test_one_attempt_can_be_read_whole(run: Told) -> None:
    """U1, I6: what counts and what was taken back of it, marked, and nothing of the others."""
    run.tell(
        steps(run, 1, 57),
        make.validation(20, run=run.run, eval_loss=2.0),
        make.validation(50, run=run.run, eval_loss=1.0),
        make.begun_from(40, 2, run.run),
        [make.step(n, attempt=2, run=run.run, loss=n + 0.5) for n in range(41, 61)],
        make.validation(50, run=run.run, attempt=2, eval_loss=1.5),
    )

    first, second = run.metrics(attempt=1), run.metrics(attempt=2)
    assert [(row["step"], row["attempt"]) for row in first] == [(n, 1) for n in range(1, 58)]
    assert [row["step"] for row in first if "superseded" in row] == list(range(41, 58))
    assert {row["supersededBy"]["attempt"] for row in first[40:]} == {2}
    assert [row["step"] for row in second] == list(range(41, 61))
    assert not any("superseded" in row for row in second)
    assert [row["step"] for row in run.metrics(attempt=1, limit=2, between=(0, 50))] == [49, 50]
    assert [row["measured"] for row in run.metrics(attempt=2, fields=["loss"], limit=1)] == [
        {"loss": 60.5}
    ]
    assert [
        (row["step"], row["measured"]["eval_loss"], "superseded" in row)
        for row in run.validations(attempt=1)
    ] == [(20, 2.0, False), (50, 1.0, True)]
    assert [row["measured"] for row in run.validations(attempt=2)] == [{"eval_loss": 1.5}]
    assert (run.metrics(attempt=3), run.validations(attempt=3)) == ([], [])


def test_a_restore_says_who_went_back_and_from_which_snapshot(run: Told) -> None:
    """S86: an attempt that begins so, or a trainer by itself."""
    run.tell(
        make.begun_from(40, 2, run.run, snapshot_id=make.snapshot_id("40")),
        make.restored(20, attempt=2, run=run.run),
        make.begun_from(0, 3, run.run),
    )

    assert run.select(
        "SELECT attempt, step, snapshot_id FROM restore WHERE run_id = ? ORDER BY position"
    ) == [(2, 40, make.snapshot_id("40")), (2, 20, None), (3, 0, None)]


def test_nan_both_infinities_and_absent_stay_four_different_things(run: Told) -> None:
    """C35, U11: five rows, nothing becomes null, 0 or 1.8e308."""
    run.tell(
        make.step(1, {"loss": 1.0, "grad_norm": 0.5, "kl": math.nan}, run=run.run),
        make.step(2, {"loss": math.nan, "grad_norm": 0.5, "kl": math.inf}, run=run.run),
        make.step(3, {"loss": 0.9, "grad_norm": math.inf, "kl": -math.inf}, run=run.run),
        make.step(4, {"grad_norm": -math.inf}, run=run.run),
        make.step(5, {"loss": 0.8, "grad_norm": 0.5, "kl": 0.0}, run=run.run),
    )

    assert [row["measured"] for row in run.metrics()] == [
        {"loss": 1.0, "grad_norm": 0.5, "kl": "NaN"},
        {"loss": "NaN", "grad_norm": 0.5, "kl": "Infinity"},
        {"loss": 0.9, "grad_norm": "Infinity", "kl": "-Infinity"},
        {"grad_norm": "-Infinity"},
        {"loss": 0.8, "grad_norm": 0.5, "kl": 0.0},
    ]
    at, loss = queries.series(run.warehouse, run.run, "loss")
    assert at.tolist() == [1, 2, 3, 5]
    assert np.array_equal(loss, [1.0, math.nan, 0.9, 0.8], equal_nan=True)
    assert run.series("kl")[1:] == [(2, math.inf), (3, -math.inf), (5, 0.0)]
    assert run.select("SELECT count(*) FROM metrics WHERE run_id = ? AND isnan(loss)") == [(1,)]


def test_reports_of_one_update_are_one_row(run: Told) -> None:
    """C34: fields are merged, and nothing is overwritten."""
    run.tell(
        make.step(8659, {"loss": 0.2}, run=run.run),
        make.step(8660, {"loss": 0.1333, "grad_norm": 0.5, "a": 1.0}, run=run.run),
        make.step(8660, {"train_loss": 0.28918, "epoch": 3.0}, run=run.run),
    )

    assert run.metrics()[1:] == [
        {
            "step": 8660,
            "attempt": 1,
            "measured": {
                "loss": 0.1333,
                "grad_norm": 0.5,
                "a": 1.0,
                "epoch": 3.0,
                "train_loss": 0.28918,
            },
        }
    ]
    assert run.series("loss") == [(8659, 0.2), (8660, 0.1333)]
    assert run.select(
        "SELECT loss, epoch, extra FROM metrics WHERE run_id = ? AND step = 8660"
    ) == [(0.1333, 3.0, {"a": 1.0, "train_loss": 0.28918})]


def test_an_update_that_measured_nothing_is_a_row_without_numbers(run: Told) -> None:
    """C38."""
    run.tell(make.step(2178, {}, run=run.run))

    assert run.metrics() == [{"step": 2178, "attempt": 1, "measured": {}}]


def test_names_are_kept_as_they_came(run: Told) -> None:
    """C40, S84: slashes, blanks, colons, percent signs, no letters at all."""
    names = ["actor/grad_norm", "a b:c__MIN", "损失", "p%/[x]", "", "drop table", "Loss", "🦜\n\"'"]
    measured = {name: float(n) for n, name in enumerate(names)}
    run.tell(make.step(1, measured, run=run.run))

    assert run.metrics()[0]["measured"] == measured
    for name, value in measured.items():
        assert run.series(name) == [(1, value)]
    query = "SELECT extra['损失'], extra['p%/[x]'] FROM metrics WHERE run_id = ?"
    assert run.select(query) == [(2.0, 3.0)]


def test_reward_terms_stand_beside_what_was_measured(run: Told) -> None:
    """S85: they sum to the score, and a run without rewards has none."""
    run.tell(
        make.step(1, {"reward": 0.75}, run=run.run, reward_terms={"format": 0.25, "right": 0.5}),
        make.step(2, {"reward": 0.5}, run=run.run),
        make.step(3, {"reward": 0.5}, run=run.run, reward_terms={"format": math.nan}),
        make.step(4, {"reward": 0.5}, run=run.run, reward_terms={}),
    )

    assert [row.get("rewardTerms") for row in run.metrics()] == [
        {"format": 0.25, "right": 0.5},
        None,
        {"format": "NaN"},
        {},
    ]
    assert run.select("SELECT reward_terms FROM metrics WHERE run_id = ? ORDER BY step")[:2] == [
        ({"format": 0.25, "right": 0.5},),
        (None,),
    ]


def test_metrics_can_be_of_some_fields_and_steps(run: Told) -> None:
    run.tell([make.step(n, {"loss": 1.0, "kl": n, "x": 0.0}, run=run.run) for n in range(1, 101)])

    assert run.metrics(fields=["kl"], between=(10, 11)) == [
        {"step": 10, "attempt": 1, "measured": {"kl": 10.0}},
        {"step": 11, "attempt": 1, "measured": {"kl": 11.0}},
    ]
    assert run.metrics(fields=["other"], between=(10, 10))[0]["measured"] == {}
    assert [row["step"] for row in run.metrics(limit=2)] == [99, 100]
    assert [row["step"] for row in run.metrics(limit=2, between=(0, 50))] == [49, 50]
    assert run.metrics(limit=2, between=(500, 600)) == []


def test_a_limit_counts_updates_and_not_their_reports(run: Told) -> None:
    run.tell(
        make.step(1, run=run.run, loss=1.0),
        make.step(2, run=run.run, loss=2.0),
        make.step(2, run=run.run, kl=2.0),
        make.step(2, run=run.run, x=2.0),
    )

    assert [row["step"] for row in run.metrics(limit=2)] == [1, 2]


def test_validations_follow_the_same_restores(run: Told) -> None:
    """D5: validation values are superseded as well; step 0 is kept."""
    run.tell(
        make.validation(0, run=run.run, eval_loss=5.0),
        make.validation(20, run=run.run, eval_loss=2.0),
        make.validation(40, run=run.run, eval_loss=1.0),
        make.restored(20, run=run.run),
        make.validation(40, run=run.run, attempt=2, eval_loss=1.5),
    )

    current = [(row["step"], row["attempt"], row["measured"]) for row in run.validations()]
    assert current == [
        (0, 1, {"eval_loss": 5.0}),
        (20, 1, {"eval_loss": 2.0}),
        (40, 2, {"eval_loss": 1.5}),
    ]
    everything = run.validations(superseded=True)
    assert [row.get("superseded") for row in everything] == [None, None, True, None]
    assert [row["supersededBy"]["step"] for row in everything if "superseded" in row] == [20]
    assert run.select("SELECT count(*) FROM validations WHERE run_id = ?") == [(3,)]


def test_validation_sets_stay_apart(run: Told) -> None:
    """C34: and several reports of one set are one row."""
    run.tell(
        make.validation(0, run=run.run, dataset="a", eval_loss=1.0),
        make.validation(0, run=run.run, dataset="b", eval_loss=math.nan),
        make.validation(0, run=run.run, dataset="a", accuracy=0.5),
        make.validation(0, run=run.run, eval_loss=3.0),
    )

    assert run.validations() == [
        {"step": 0, "attempt": 1, "dataset": "a", "measured": {"eval_loss": 1.0, "accuracy": 0.5}},
        {"step": 0, "attempt": 1, "dataset": "b", "measured": {"eval_loss": "NaN"}},
        {"step": 0, "attempt": 1, "dataset": None, "measured": {"eval_loss": 3.0}},
    ]
    assert run.select("SELECT count(*) FROM validations WHERE run_id = ?") == [(3,)]


def test_a_run_without_metrics_has_empty_series(run: Told) -> None:
    assert run.series("loss") == []
    assert run.series("anything else") == []
    assert run.metrics(limit=5) == []
    assert run.validations() == []


def test_the_views_tell_the_life_of_a_run(run: Told) -> None:
    """S24: phases by their own times; cost of an attempt ends with its last sign of life."""
    run.tell(
        make.submitted(run.run, at=0, project="triage"),
        make.phase("WAITING", run.run, at=1),
        make.opened(1, run.run, at=3, devices=["cuda:0", "cuda:1"]),
        make.phase("TRAINING", run.run, at=4),
        make.closed(1, run.run, at=20, last_sign=13, end_class="infrastructure", signal=9),
        make.failed(run.run, at=20),
    )

    phases = "SELECT phase, epoch_ms(left_at) - epoch_ms(entered_at) FROM phases"
    assert run.select(f"{phases} WHERE run_id = ? ORDER BY position") == [
        ("SUBMITTED", 1000),
        ("WAITING", 3000),
        ("TRAINING", 16000),
    ]
    assert run.select(
        "SELECT attempt, devices, end_class, signal, device_seconds FROM attempts WHERE run_id = ?"
    ) == [(1, ["cuda:0", "cuda:1"], "infrastructure", 9, 20.0)]
    assert run.select(
        "SELECT project, phase, failure_code, device_seconds, epoch(ended_at) - epoch(submitted_at)"
        " FROM runs WHERE run_id = ?"
    ) == [("triage", "FAILED", "deviceMemory", 20.0, 20.0)]


def test_an_open_attempt_has_no_final_cost(run: Told) -> None:
    run.tell(make.training(run.run))

    assert run.select("SELECT device_seconds FROM attempts WHERE run_id = ?") == [(None,)]
    assert run.select("SELECT phase, ended_at, device_seconds FROM runs WHERE run_id = ?") == [
        ("TRAINING", None, 0.0)
    ]
    assert run.select("SELECT left_at FROM phases WHERE run_id = ? AND phase = 'TRAINING'") == [
        (None,)
    ]
