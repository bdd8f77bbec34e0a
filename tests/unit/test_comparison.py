"""Comparing two runs: windows over common steps, spikes, and what their plans have in common."""

import math
from typing import Any

import pytest

from projections.comparison import Curves, Limits, Planned, compare, differences, divided_unlike
from tests import make

NAN, INFINITE = math.nan, math.inf


def losses(first: int, *values: float) -> dict[int, float]:
    return dict(enumerate(values, start=first))


def compared(
    run: dict[int, float], baseline: dict[int, float], norms: Any = ({}, {}), **limits: Any
) -> dict[str, Any]:
    return compare(Curves(run, norms[0]), Curves(baseline, norms[1]), Limits(**limits))


def test_each_window_has_the_mean_difference_of_the_run_from_the_baseline() -> None:
    """S96, D9: exact on two written series; the sign is that of run minus baseline."""
    answer = compared(losses(1, 1.0, 0.5, 0.25, 0.75), losses(1, 0.5, 0.5, 0.5, 1.0), window=2)

    assert answer["windows"] == [
        {
            "firstStep": 1,
            "lastStep": 2,
            "steps": 2,
            "isFull": True,
            "notFinite": 0,
            "run": 0.75,
            "baseline": 0.5,
            "difference": 0.25,
        },
        {
            "firstStep": 3,
            "lastStep": 4,
            "steps": 2,
            "isFull": True,
            "notFinite": 0,
            "run": 0.5,
            "baseline": 0.75,
            "difference": -0.25,
        },
    ]
    assert answer["steps"] == {
        "compared": 4,
        "notFinite": 0,
        "missingInRun": None,
        "missingInBaseline": None,
    }


@pytest.mark.parametrize("sign", [1, -1])
def test_the_first_full_window_beyond_the_margin_either_way_is_reported(sign: int) -> None:
    """S98: a better loss is a difference as well."""
    run = {step: 1.0 + sign * (0.25 if step > 10 else 0.0) for step in range(1, 31)}
    baseline = dict.fromkeys(range(1, 31), 1.0)

    reported = compared(run, baseline)["reported"]

    assert (reported["firstStep"], reported["difference"]) == (11, sign * 0.25)


def test_a_difference_of_exactly_the_margin_is_not_reported() -> None:
    """S101: greater than; the digits count, not what they are in binary."""
    baseline = dict.fromkeys(range(1, 11), 1.5)

    at = compared(dict.fromkeys(range(1, 11), 1.53), baseline)
    below = compared(dict.fromkeys(range(1, 11), 1.47), baseline)
    beyond = compared(dict.fromkeys(range(1, 11), 1.530001), baseline)

    assert 1.53 - 1.5 > 0.03
    assert (at["windows"][0]["difference"], at["reported"]) == (0.03, None)
    assert (below["windows"][0]["difference"], below["reported"]) == (-0.03, None)
    assert beyond["reported"]["difference"] == 0.030001
    assert compared({1: 1.0}, {1: 1.0}, window=1, margin=0.0)["reported"] is None


def test_a_shorter_window_says_how_many_steps_it_holds_and_is_never_reported() -> None:
    """S99: 23 steps in windows of 10."""
    run, baseline = dict.fromkeys(range(1, 24), 9.0), dict.fromkeys(range(1, 24), 9.0)
    run |= {21: 5.0, 22: 5.0, 23: 5.0}

    answer = compared(run, baseline)

    assert [(each["steps"], each["isFull"]) for each in answer["windows"]] == [
        (10, True),
        (10, True),
        (3, False),
    ]
    assert answer["windows"][2]["difference"] == -4.0
    assert answer["reported"] is None
    assert compared({1: 9.0}, {1: 0.0})["reported"] is None


def test_steps_are_aligned_by_number_and_what_is_missing_is_counted() -> None:
    """D9, U16: by position the two series would agree."""
    run = {1: 1.0, 3: 3.0, 4: 4.0, 6: 6.0}
    baseline = {1: 1.0, 2: 3.0, 4: 4.0, 5: 6.0, 6: 6.0, 7: 7.0}

    answer = compared(run, baseline, window=3)

    assert [(each["firstStep"], each["lastStep"]) for each in answer["windows"]] == [(1, 6)]
    assert answer["windows"][0]["difference"] == 0.0
    assert answer["steps"] == {
        "compared": 3,
        "notFinite": 0,
        "missingInRun": {"count": 3, "first": 2, "last": 7},
        "missingInBaseline": {"count": 1, "first": 3, "last": 3},
    }


def test_runs_without_a_common_step_have_no_windows() -> None:
    """U16: nothing is invented."""
    answer = compared({1: 1.0, 2: 1.0}, {3: 9.0})

    assert (answer["windows"], answer["reported"], answer["steps"]["compared"]) == ([], None, 0)
    assert compared({}, {})["spikes"] == []


def test_what_is_not_a_number_is_counted_and_never_beyond_the_margin() -> None:
    """C35: an infinite loss is beyond every margin, NaN is beyond none."""
    baseline = dict.fromkeys(range(1, 7), 1.0)
    run = baseline | {1: NAN, 2: 1.0, 3: INFINITE, 5: -INFINITE, 6: INFINITE}

    answer = compared(run, baseline | {4: 1.0}, window=2)

    assert [(each["difference"], each["notFinite"]) for each in answer["windows"]] == [
        ("NaN", 1),
        ("Infinity", 1),
        ("NaN", 2),
    ]
    assert answer["steps"]["notFinite"] == 4
    assert answer["reported"]["firstStep"] == 3
    assert [each["run"] for each in answer["windows"]] == ["NaN", "Infinity", "NaN"]


def test_a_norm_of_ten_times_its_own_median_is_a_spike() -> None:
    """S97, S102, D4: at least, and against its own run's median."""
    run = dict.fromkeys(range(1, 10), 0.07) | {5: 0.7, 6: 0.699}
    baseline = dict.fromkeys(range(1, 10), 2.0) | {3: 20.0, 5: 10.0}

    spikes = compared({}, {}, norms=(run, baseline))["spikes"]

    assert 0.07 * 10 > 0.7
    assert spikes == [
        {"step": 3, "run": None, "baseline": 20.0},
        {"step": 5, "run": 0.7, "baseline": None},
    ]


def test_the_median_of_an_even_number_of_norms_is_between_two() -> None:
    """S102: and what is not finite takes no part in it, though an infinite norm is a spike."""
    norms = {1: 1.0, 2: 2.0, 3: NAN, 4: INFINITE, 5: 4.5}

    def spiked(factor: float) -> list[int]:
        found = compared({}, {}, norms=(norms, {}), spike_factor=factor)["spikes"]
        return [each["step"] for each in found]

    assert spiked(2.25) == [4, 5]
    assert spiked(2.2501) == [4]
    assert compared({}, {}, norms=({1: 0.0, 2: 0.0, 3: 0.0}, {}))["spikes"] == []


def planned(origin: Any = None, **fields: Any) -> Planned:
    return Planned(make.document(**fields), origin)


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"dataset": "other.jsonl"}, ("dataset", "rows.jsonl", "other.jsonl")),
        ({"baseModel": "tiny@2"}, ("baseModel", "tiny", "tiny@2")),
        ({"config": {"seed": 1}}, ("config.seed", 0, 1)),
        ({"config": {"sequencesPerUpdate": 32}}, ("config.sequencesPerUpdate", 16, 32)),
        ({"config": {"learningRate": 1e-3}}, ("config.learningRate", 2e-4, 1e-3)),
        ({"config": {"lora": {"rank": 8}}}, ("config.lora.rank", 16, 8)),
        (
            {"config": {"schedule": {"kind": "linear"}}},
            ("config.schedule.kind", "cosine", "linear"),
        ),
        ({"config": {"epochs": 2}}, ("config.epochs", 1.0, 2.0)),
        ({"validation": {"fraction": 0.2}}, ("validation.fraction", None, 0.2)),
    ],
)
def test_plans_differ_in_whatever_decides_the_loss(
    fields: dict[str, Any], difference: tuple[Any, ...]
) -> None:
    """S104, S105: field, left, right."""
    found = differences(planned(), planned(**fields))

    assert [(each["field"], each["run"], each["baseline"]) for each in found] == [difference]


def test_rows_that_both_have_read_are_compared_by_what_they_say() -> None:
    """S104, C11: a copy of the file is no other data set."""
    run = planned(dataset="/a/train.jsonl")._replace(identity="1" * 64)
    baseline = planned(dataset="/b/copy.jsonl")._replace(identity="1" * 64)

    assert differences(run, baseline) == []
    assert [each["field"] for each in differences(run, planned(dataset="/b/copy.jsonl"))] == [
        "dataset"
    ]


def test_a_file_that_was_changed_between_two_runs_is_another_data_set() -> None:
    """S104: the same path, and other rows."""
    run = planned(dataset="/a/train.jsonl")._replace(identity="1" * 64)
    baseline = planned(dataset="/a/train.jsonl")._replace(identity="2" * 64)

    assert differences(run, baseline) == [
        {
            "field": "dataset",
            "run": "/a/train.jsonl (111111111111)",
            "baseline": "/a/train.jsonl (222222222222)",
        }
    ]


def test_a_branch_begins_elsewhere() -> None:
    """S104: weights of a snapshot are not those of the base model."""
    branch = planned({"snapshotId": "3f2a", "restore": "weights"})

    assert differences(branch, branch) == []
    assert [each["field"] for each in differences(branch, planned())] == [
        "origin.snapshotId",
        "origin.restore",
    ]


def test_what_two_imported_runs_were_told_differently_is_a_difference() -> None:
    """S104, S105: by the names of their tracker; when it logs and saves decides no loss."""
    run = planned()._replace(
        hyperparameters={"max_steps": 100, "lora": {"r": 8}, "logging_steps": 5, "seed": 7}
    )
    baseline = planned()._replace(
        hyperparameters={"max_steps": 200, "lora": {"r": 16}, "logging_steps": 10, "warmup": 3}
    )

    assert differences(run, baseline) == [
        {"field": "hyperparameters.max_steps", "run": 100, "baseline": 200},
        {"field": "hyperparameters.lora.r", "run": 8, "baseline": 16},
    ]
    assert differences(run, planned()) == []  # nobody knows what the other was told


def test_labels_engines_and_saves_are_no_differences() -> None:
    """S95: two runs with the same configuration train the same rows, whatever they are called."""
    one = planned(name="one", project="a", execution={"saveEvery": 5, "maxAttempts": 1})
    other = planned(name="two", description="x", engine={"sim": [{"steps": 3}]})

    assert differences(one, other) == []
    assert differences(planned(config={"epochs": 2}), planned(config={"epochs": 2.0})) == []


def test_how_an_update_is_divided_is_told_and_is_no_difference() -> None:
    """S107: devices, sequences of a pass, and accumulation."""
    command = {"command": ["train"]}
    one = planned(engine=command, execution={"microBatchSequences": 4})
    other = planned(engine=command, execution={"devices": 2, "microBatchSequences": 2})

    assert differences(one, other) == []
    assert divided_unlike(one, one) is None
    assert divided_unlike(one, other) == {
        "run": {"devices": 1, "microBatchSequences": 4, "accumulation": 4},
        "baseline": {"devices": 2, "microBatchSequences": 2, "accumulation": 4},
    }
