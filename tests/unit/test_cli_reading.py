"""Texts about a run: two runs compared, hyperparameters, engine configuration, buckets, charts."""

from pathlib import Path
from typing import Any

import pytest

from cli.render.annotations import annotated
from cli.render.chart import HEIGHT, chart, columns
from cli.render.compare import compared, reported
from cli.render.engine_config import engine_config
from cli.render.hparams import hyperparameters
from cli.render.metrics import bucketed, metrics
from tests.cli_server import RUN

GOLDEN = Path(__file__).parent.parent / "golden"
BASELINE = "fedcba9876543210"
Json = dict[str, Any]


def window(first: int, last: int, difference: Any, **facts: Any) -> Json:
    said = {"firstStep": first, "lastStep": last, "steps": last - first + 1, "isFull": True}
    numbers = {"notFinite": 0, "run": 1.25, "baseline": 1.2, "difference": difference}
    return said | numbers | facts


def comparison(*windows: Json, **facts: Any) -> Json:
    steps = {"compared": 23, "notFinite": 0, "missingInRun": None, "missingInBaseline": None}
    return {
        "runId": RUN,
        "baselineId": BASELINE,
        "position": 940,
        "window": 10,
        "margin": 0.03,
        "spikeFactor": 10.0,
        "acrossPlans": False,
        "differences": [],
        "division": None,
        "steps": steps | facts.pop("steps", {}),
        "windows": list(windows),
        "reported": None,
        "spikes": [],
        "reminder": "the backward pass is nondeterministic: compare a reported window with repeats "
        "of the same configuration before acting on it",
    } | facts


BEYOND = window(11, 20, 0.05)
FULL = comparison(
    window(1, 10, -0.0125),
    BEYOND,
    window(21, 24, "NaN", steps=3, isFull=False, notFinite=1, run="NaN"),
    reported=BEYOND,
    steps={
        "notFinite": 1,
        "missingInRun": {"count": 977, "first": 25, "last": 1_001},
        "missingInBaseline": {"count": 1, "first": 23, "last": 23},
    },
    differences=[
        {"field": "config.seed", "run": 1, "baseline": 0},
        {"field": "config.schedule.kind", "run": "linear", "baseline": "cosine"},
    ],
    division={
        "run": {"devices": 1, "microBatchSequences": 4, "accumulation": 4},
        "baseline": {"devices": 2, "microBatchSequences": 1, "accumulation": 8},
    },
    spikes=[
        {"step": 7, "run": None, "baseline": 11.5},
        {"step": 1_012, "run": "Infinity", "baseline": 20.25},
    ],
)


def test_a_comparison_reads_as_agreed() -> None:
    """S94 to S108, D9: everything that can be said, at 80 columns."""
    text = compared(FULL, width=80)

    assert text == (GOLDEN / "compare.txt").read_text()
    assert text.isascii()


def test_a_comparison_without_anything_to_report_is_short() -> None:
    """S98, S108: the reminder is there all the same."""
    text = compared(comparison(window(1, 10, 0.03)), width=80)

    assert text == (GOLDEN / "compare_same.txt").read_text()
    assert reported(FULL) == (
        "the first full window that differs by more than 0.03: steps 11-20, by +0.05"
    )


def test_runs_without_a_common_step_say_so() -> None:
    """U16."""
    text = compared(comparison(steps={"compared": 0}), width=80)

    assert "0 steps compared, run less baseline\n" in text
    assert "no full window differs by more than 0.03\n" in text


def test_the_difference_stays_at_any_width() -> None:
    """U18: other columns go first."""
    lines = compared(FULL, width=40).split("\n")

    assert "11-20        10       +0.05  reported" in lines


def test_hyperparameters_read_as_agreed() -> None:
    """S114, I21."""
    answer = {
        "runId": RUN,
        "attempt": 2,
        "configHash": "9c" * 32,
        "hyperparameters": {
            "learningRate": 2e-4,
            "lora.rank": 16,
            "schedule": {"kind": "cosine"},
            "gradientCheckpointing": False,
            "targets\n": ["q", "v"],
        },
    }

    assert hyperparameters(answer, width=80) == (GOLDEN / "hparams.txt").read_text()


def test_a_second_value_stands_only_where_the_engine_resolved_it_differently() -> None:
    """S119: each requested setting is listed, and no other."""
    answer = {
        "requested": {
            "learning_rate": 2e-4,
            "max_steps": -1,
            "fp16": False,
            "warmup_steps": 0.03,
            "peft": {"r": 16, "target_modules": "all-linear"},
            "a.b": 1,
            "unheard_of": True,
        },
        "resolved": {
            "learning_rate": 0.0002,
            "max_steps": -1,
            "fp16": 0,
            "warmup_steps": 4,
            "peft": {"r": 16, "target_modules": ["k_proj", "q_proj"]},
            "a.b": 1.0,
            "adam_beta1": 0.9,
        },
    }

    assert engine_config(answer, width=80) == (GOLDEN / "engine_config.txt").read_text()
    assert engine_config({"requested": {}, "resolved": {"a": 1}}, width=80) == (
        "nothing was requested of the engine\n"
    )


def test_words_put_to_a_run_read_as_agreed() -> None:
    """I23, U19: on lines of their own, without control bytes."""
    words = {"name": None, "description": "a\x1b[2Jb", "labels": {"b": "2", "a": "1"}}

    assert annotated({"runId": RUN, **words}, width=80).split("\n")[2:5] == [
        "  Name              -",
        r"  Description       a\x1b[2Jb",
        "  Labels            a=1, b=2",
    ]


# -- long series ---------------------------------------------------------------------------------


def bucket(first: int, last: int, **measured: tuple[Any, Any, Any]) -> Json:
    said = {
        name: {"mean": mean, "min": low, "max": high, "steps": 0 if mean is None else 2}
        | {"notFinite": 1 if mean is None else 0}
        for name, (mean, low, high) in measured.items()
    }
    return {"from": first, "to": last, "measured": said}


def test_buckets_are_rows_with_mean_least_and_greatest() -> None:
    """U7: of one field or of several."""
    rows = [
        bucket(1, 50_000, loss=(1.5, 1.0, 2.0), kl=(0.5, 0.25, 0.75)),
        bucket(50_001, 100_000, loss=(None, None, None)),
    ]

    assert bucketed({"buckets": rows}, fields=["loss,kl"], width=80).split("\n")[:3] == [
        "       steps  loss  loss min  loss max   kl  kl min  kl max",
        "     1-50000   1.5         1         2  0.5    0.25    0.75",
        "50001-100000     -         -         -    -       -       -",
    ]
    assert bucketed({"buckets": []}, fields=["loss"], width=80) == "no steps yet\n"


FALLING = [bucket(n, n + 9, loss=(0.0, 2 - n / 100, 2.1 - n / 100)) for n in range(1, 200, 10)]


@pytest.mark.parametrize(("ascii_only", "name"), [(False, "chart.txt"), (True, "chart_ascii.txt")])
def test_a_chart_reads_as_agreed(ascii_only: bool, name: str) -> None:
    """S166, C53: braille dots, or stars where the terminal has none."""
    text = chart(FALLING, "loss", width=60, ascii_only=ascii_only)

    assert text == (GOLDEN / name).read_text()
    assert text.isascii() == ascii_only
    assert max(map(len, text.split("\n"))) <= 60
    assert text.count("\n") == HEIGHT + 4


def test_what_is_not_finite_is_counted_below_the_chart() -> None:
    """U11: it has no place in it."""
    some = chart([*FALLING, bucket(201, 210, loss=(None, None, None))], "loss", width=80,
        ascii_only=True)  # fmt: skip
    none = chart([bucket(1, 2, x=(None, None, None))], "x", width=80, ascii_only=True)

    assert some.endswith("\n1 step not finite, and not shown\n")
    assert none == "1 step not finite, and not shown\n"
    assert chart([], "x\x1b", width=80, ascii_only=True) == "x\\x1b: no step has it\n"


def test_a_chart_is_as_wide_as_the_terminal_within_reason() -> None:
    """U18."""
    assert (columns(80), columns(None), columns(10), columns(1_000)) == (56, 56, 20, 160)
    flat = chart([bucket(5, 5, loss=(1.0, 1.0, 1.0))], "loss", width=80, ascii_only=True)
    assert "*" in flat


def test_the_fields_of_a_validation_are_shown_as_they_are_asked_for() -> None:
    """I20: a set's own name where it is asked for, and no column gives way to another."""
    rows = [
        {"step": 7, "dataset": name, "measured": {f"eval_{name}_loss": n, "epoch": 1.0}}
        for n, name in enumerate(("a", "b"), 1)
    ]
    answer = {"steps": [], "validations": rows}

    asked = metrics(answer, fields=["eval_b_loss"], width=30)
    other = metrics(answer, fields=["grad_norm"], width=80)

    assert [line.split() for line in asked.splitlines()[3:]] == [
        ["step", "dataset", "eval_b_loss"],
        ["7", "a", "-"],
        ["7", "b", "2"],
    ]
    assert other.splitlines()[3].split() == ["step", "dataset", "eval_*_loss", "epoch"]


def labels(shown: str) -> tuple[list[str], list[str]]:
    """What stands at the two axes of a chart."""
    *above, steps = [line for line in shown.split("\n") if "|" in line and "-|-" not in line]
    return [line.partition("|")[0].strip() for line in above], steps.partition("|")[2].split()


def test_the_axes_of_a_chart_tell_near_values_and_few_steps_apart() -> None:
    """S166: a number that stands twice at an axis says nothing."""
    near = [bucket(n, n, entropy=(0.0, 5.936 + n / 1e5, 5.936 + n / 1e5)) for n in range(1, 5)]

    values, steps = labels(chart(near, "entropy", width=80, ascii_only=True))

    assert len(set(values)) == len(values) == HEIGHT + 1
    assert steps == ["1", "2", "3"]  # 4 lies between two labels
