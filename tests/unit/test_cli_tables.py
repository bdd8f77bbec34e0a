"""Tables: metrics and the list of runs."""

from datetime import UTC, datetime
from pathlib import Path

from cli.render.metrics import metrics
from cli.render.runs import runs
from tests.cli_answers import record
from tests.cli_server import RUN

GOLDEN = Path(__file__).parent.parent / "golden"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)

MEASURED = [
    {
        "loss": 2.31,
        "grad_norm": 11.009225845336914,
        "grad_clip_factor": 0.09083290814890146,
        "adapter_norm": 3.2,
        "update_ratio": None,
        "learning_rate": 2e-4,
    },
    {"loss": "NaN", "grad_norm": 0.5, "grad_clip_factor": 1, "adapter_norm": 3.3},
    {"loss": 0.5, "grad_norm": "Infinity", "adapter_norm": 3.4, "update_ratio": 0},
    {"grad_norm": 1.0, "a b:c__MIN": 7.0, "损失": 1.5, "p%/[x]\n": 2.0},
    {"loss": "-Infinity", "actor/grad_norm": 0.25},
]
ANSWER = {
    "runId": RUN,
    "position": 9,
    "steps": [
        {"step": number, "attempt": 1, "measured": measured}
        for number, measured in enumerate(MEASURED, start=1)
    ],
    "validations": [
        {
            "step": 5,
            "attempt": 1,
            "dataset": None,
            "measured": {"eval_loss": 0.61, "eval_rows": 120},
        }
    ],
}


def test_the_metrics_table_reads_as_agreed() -> None:
    """S83, S93, C35: not a number, infinite and absent are shown as such, one step a line."""
    assert metrics(ANSWER, fields=[], width=80) == (GOLDEN / "metrics.txt").read_text()


def test_the_learning_rate_is_the_first_column_to_go() -> None:
    """S93: the five fields stay while they fit."""
    head = {
        width: metrics(ANSWER, fields=[], width=width).split("\n")[0] for width in (200, 75, 40)
    }

    assert head[200].split()[-1] == "learning_rate"
    assert head[75].split() == [
        "step",
        "loss",
        "grad_norm",
        "grad_clip_factor",
        "adapter_norm",
        "update_ratio",
    ]
    assert head[40].split() == ["step", "loss", "grad_norm"]


def test_fields_of_any_name_become_columns_of_one_line() -> None:
    """C40, S84: keys verbatim, cells on one line; a chosen column never goes."""
    chosen = ["a b:c__MIN", "损失", "actor/grad_norm", "p%/[x]\n"]

    lines = metrics(ANSWER, fields=chosen, width=20).split("\n")

    assert lines[0] == r"step  a b:c__MIN  损失  actor/grad_norm  p%/[x]\n"
    assert lines[4].split() == ["4", "7", "1.5", "-", "2"]
    assert lines[5].split() == ["5", "-", "-", "0.25", "-"]


def test_steps_of_several_attempts_say_which() -> None:
    """S86: the current series may come from more than one attempt."""
    steps = [{"step": n, "attempt": n, "measured": {"loss": 1.0}} for n in (1, 2)]

    table = metrics({"steps": steps}, fields=["loss"], width=80)

    assert table == "step  attempt  loss\n   1        1     1\n   2        2     1\n"


def test_a_reward_term_is_a_column_too() -> None:
    """S85, I20: terms:name is one reward term's share."""
    steps = [{"step": 1, "attempt": 1, "measured": {}, "rewardTerms": {"exact": 0.25}}]

    assert metrics({"steps": steps}, fields=["terms:exact"], width=80).split()[-1] == "0.25"


def test_a_run_without_steps_says_so() -> None:
    """S83: an empty series is not an empty page."""
    assert metrics({"steps": [], "validations": []}, fields=[], width=80) == "no steps yet\n"


SUMMARIES = [
    record(submittedAt="2026-11-29T11:59:30Z", phase="TRAINING", name=None),
    record(
        runId="fedcba9876543210",
        submittedAt="2026-11-26T12:00:00Z",
        name="a name that is longer than anybody would want to read in a table",
        progress={"completed": 0, "total": None, "lastLoss": None},
    ),
]


def test_the_list_of_runs_reads_as_agreed() -> None:
    """I2: newest first, one line a run."""
    assert runs(SUMMARIES, now=NOW, width=80) == (GOLDEN / "list.txt").read_text()


def test_ids_are_whole_at_forty_columns_and_other_columns_go_first() -> None:
    """U18, C53: columns drop, ids do not."""
    lines = runs(SUMMARIES, now=NOW, width=40).split("\n")

    assert [line.split()[0] for line in lines[1:3]] == [RUN, "fedcba9876543210"]
    assert max(len(line) for line in lines) <= 40


def test_a_pipe_gets_every_column_and_every_word() -> None:
    """C53: piped output is not shortened."""
    assert SUMMARIES[1]["name"] in runs(SUMMARIES, now=NOW, width=None)


def test_no_runs_is_a_sentence() -> None:
    """I2: an empty list is said."""
    assert runs([], now=NOW, width=80) == "no runs\n"
