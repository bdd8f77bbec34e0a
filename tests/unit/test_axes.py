"""Axes of a sweep and the points that they span."""

import pytest

from cli.axes import Axis, axes, points
from cli.errors import CommandError, Exit


def overrides(*texts: str, base: dict[str, object] | None = None) -> list[object]:
    return [each.overrides for each in points(axes(texts), base or {})]


def test_every_combination_is_a_point_and_the_last_axis_is_the_fastest() -> None:
    """Issue 6: `runs sweep`."""
    assert overrides("config.learningRate=1e-4,2e-4", "config.seed=1,2") == [
        {"config": {"learningRate": 1e-4, "seed": 1}},
        {"config": {"learningRate": 1e-4, "seed": 2}},
        {"config": {"learningRate": 2e-4, "seed": 1}},
        {"config": {"learningRate": 2e-4, "seed": 2}},
    ]


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("config.seed=7", Axis("config.seed", (7,))),
        ("learningRate=1e-4,2e-4", Axis("config.learningRate", (1e-4, 2e-4))),
        ("schedule.kind=cosine, linear", Axis("schedule.kind", ("cosine", "linear"))),
        ("dataset=a.jsonl,b.jsonl", Axis("dataset", ("a.jsonl", "b.jsonl"))),
        ("config.x=true,null,yes", Axis("config.x", (True, None, "yes"))),
        ('config.x="a,b",["c"],{"d": 1}', Axis("config.x", ("a,b", ["c"], {"d": 1}))),
        ("config.x=NaN,1e999,-Infinity", Axis("config.x", ("NaN", "1e999", "-Infinity"))),
        ("config.x=a=b", Axis("config.x", ("a=b",))),
    ],
)
def test_a_value_is_json_or_else_text(text: str, axis: Axis) -> None:
    """A name without a dot is of the configuration; what JSON has no number for stays text."""
    assert axes([text]) == [axis]


def test_a_point_has_a_label_that_equal_values_share() -> None:
    """S161: however they were written, so that a token reaches the same child."""
    (one,) = points(axes(["learningRate=1e-4", "schedule.kind=linear"]), {})
    (other,) = points(axes(["config.learningRate=0.0001", 'schedule.kind="linear"']), {})

    assert one.label == other.label == "config.learningRate=0.0001, schedule.kind=linear"


def test_points_are_laid_over_what_all_of_them_share() -> None:
    """And no point changes another."""
    base: dict[str, object] = {"config": {"seed": 3, "schedule": {"kind": "linear"}}}

    one, other = overrides("config.schedule.warmupRatio=0,0.1", base=base)

    assert one == {"config": {"seed": 3, "schedule": {"kind": "linear", "warmupRatio": 0}}}
    assert other == {"config": {"seed": 3, "schedule": {"kind": "linear", "warmupRatio": 0.1}}}
    assert base == {"config": {"seed": 3, "schedule": {"kind": "linear"}}}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["config.seed"], "is no field with values"),
        (["config.seed="], "is no field with values"),
        (["=1"], "is no field with values"),
        (["config..seed=1"], "is no field with values"),
        (["config.seed=1,2,1"], "has the value 1 twice"),
        (["config.learningRate=1e-4,0.0001"], "has the value 0.0001 twice"),
        (["config.seed=1", "seed=2"], "set one field"),
        (["config.lora=1", "config.lora.rank=2"], "set one field"),
        (["config.lora.rank=2", "config.lora=1"], "set one field"),
        (["config.lora.rank=2"], "is in the override document as well"),
        (["config.lora=2"], "is in the override document as well"),
        (["dataset.name=2"], "is in the override document as well"),
    ],
)
def test_axes_that_say_no_clear_points_are_a_usage_error(texts: list[str], said: str) -> None:
    """D8: exit 2, before anything is asked."""
    base = {"config": {"lora": {"rank": 4}}, "dataset": "rows"}

    with pytest.raises(CommandError, match=said) as refused:
        points(axes(texts), base)

    assert refused.value.code is Exit.USAGE


def test_axes_of_names_that_only_begin_alike_are_two() -> None:
    assert len(axes(["config.seed=1", "config.seeds=2"])) == 2
