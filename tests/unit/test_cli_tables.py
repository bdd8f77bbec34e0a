"""Tables: metrics and the list of runs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.render.metrics import metrics
from cli.render.runs import runs
from cli.render.snapshots import snapshot, snapshots
from tests.cli_answers import SAVED_AT_40, SAVED_AT_60, SAVED_AT_80, record, snapshot as saved
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


def superseded(step: int, attempt: int, by: int | None, **measured: object) -> dict[str, object]:
    """A step of an attempt, taken back by another where ``by`` says which."""
    row: dict[str, object] = {"step": step, "attempt": attempt, "measured": measured}
    if by is None:
        return row
    return row | {"superseded": True, "supersededBy": {"attempt": by, "step": step - 1}}


REPEATED = {
    "steps": [
        superseded(1, 1, None, **MEASURED[0]),
        superseded(2, 1, 2, **MEASURED[0]),
        superseded(2, 2, 3, **MEASURED[0]),
        superseded(2, 3, None, **MEASURED[0]),
    ],
    "validations": [
        superseded(2, 1, 2, eval_loss=0.75),
        superseded(2, 3, None, eval_loss=0.5),
    ],
}


def test_what_was_superseded_says_by_which_attempt() -> None:
    """U1, D5: at 80 columns metric columns go first, never the step nor the mark."""
    shown = metrics(REPEATED, fields=[], width=80)

    assert shown == (GOLDEN / "metrics_superseded.txt").read_text()
    assert shown.isascii()
    assert max(len(line) for line in shown.split("\n")) <= 80
    narrow = metrics(REPEATED, fields=[], width=40).split("\n")
    assert narrow[1].split() == ["1", "1", "-", "2.31"]
    assert narrow[2].split() == ["2", "1", "by", "attempt", "2", "2.31"]


def test_a_series_of_one_attempt_marks_what_was_taken_back_without_naming_it_each_time() -> None:
    """U1: the attempt is the same in every row."""
    rows = {"steps": [superseded(1, 1, None, loss=1.0), superseded(2, 1, 2, loss=0.5)]}

    assert metrics(rows, fields=["loss"], width=80).split("\n")[:3] == [
        "step  superseded    loss",
        "   1  -                1",
        "   2  by attempt 2   0.5",
    ]


def test_a_field_with_a_comma_is_one_column_where_it_was_measured() -> None:
    """C40: --fields may be repeated, and commas may stand between names or in one."""
    rows = {"steps": [superseded(1, 1, None, **{"a,b": 1.5, "c": 2.5, "d": 3.5})]}

    def head(*fields: str) -> list[str]:
        return metrics(rows, fields=fields, width=80).split("\n")[0].split()

    assert head("a,b", "c, d") == ["step", "a,b", "c", "d"]
    assert head("c", "d,c") == ["step", "c", "d"]


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


SNAPSHOTS = [
    saved(SAVED_AT_80, 80, status="damaged", damage="a file is missing", restorable=False),
    saved(SAVED_AT_60, 60, pinned=True, heldBy=["branch 77aa"]),
    saved(
        SAVED_AT_40,
        40,
        artifacts=["weights"],
        sizeBytes=19_876_544,
        sweptAt="2026-11-29T10:01:20Z",
        restorable=False,
    ),
    saved("5" * 64, 20, epoch=None, artifacts=[], sizeBytes=0, status="swept", restorable=False),
]


def test_the_table_of_snapshots_reads_as_agreed() -> None:
    """I7: saved step, epoch, id, artifacts, swept, size, status, held by."""
    wide = snapshots(SNAPSHOTS, width=200)

    assert wide == (GOLDEN / "snapshots.txt").read_text()
    assert wide.split("\n")[0].split("  ")[0] == "step"
    assert snapshots([], width=80) == "no snapshots\n"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200, None])
def test_the_id_of_a_snapshot_is_whole_at_every_width(width: int | None) -> None:
    """U18: as much of it as commands take; other columns go first."""
    lines = snapshots(SNAPSHOTS, width=width).split("\n")[1:-1]

    assert [SAVED_AT_80[:12], SAVED_AT_60[:12], SAVED_AT_40[:12], "5" * 12] == [
        next(word for word in line.split() if len(word) == 12) for line in lines
    ]
    assert width is None or max(map(len, lines)) <= width


def test_one_snapshot_reads_as_agreed() -> None:
    """I8: origin, kinds, digest per kind, writing engine, model shape."""
    files = {
        "adapter_model.safetensors": ("weights", 19_876_544, "9c" * 32),
        "trainingState/optimizer.pt": ("trainingState", 40_461_632, "41" * 32),
    }
    whole = saved(
        pinned=True,
        writer={
            "engine": "trl",
            "engineVersion": "1.16.0",
            "worldSize": 1,
            "adapter": {"rank": 16, "targetModules": ["q_proj", "v_proj"]},
        },
        manifest={
            "files": {
                name: {"artifact": kind, "sizeBytes": size, "sha256": sha256}
                for name, (kind, size, sha256) in files.items()
            }
        },
    )

    shown = snapshot(whole, width=80)

    assert shown == (GOLDEN / "snapshot.txt").read_text()
    assert "41" * 32 in snapshot(whole, width=200)


def test_a_snapshot_that_is_gone_or_damaged_says_so() -> None:
    """I9: the ledger's facts stay when the files do not."""
    swept = snapshot(SNAPSHOTS[3], width=None)
    damaged = snapshot(
        SNAPSHOTS[0] | {"manifest": None, "manifestFault": "it is missing"}, width=80
    )

    assert "  Kept              nothing\n" in swept
    assert "  Swept             weights (19.0 MiB), trainingState (38.6 MiB), -\n" in swept
    assert "  Status            damaged: a file is missing\n" in damaged
    assert "  Fault             it is missing\n" in damaged


def test_validation_sets_share_the_columns_of_what_their_names_have_in_common() -> None:
    """C34: six sets of one trainer have the loss in one column, a star where each has its name."""
    rows = [
        {
            "step": 7,
            "dataset": name,
            "measured": {"epoch": 1.0, f"eval_{name}_loss": n + 0.5, f"eval_{name}_runtime": 2.0},
        }
        for n, name in enumerate(("g0", "g1", "p%/[x]"))
    ]
    rows.append({"step": 8, "dataset": None, "measured": {"eval_loss": 9.0}})

    shown = metrics({"steps": [], "validations": rows}, fields=[], width=80)

    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["validation"],
        ["step", "dataset", "epoch", "eval_*_loss", "eval_*_runtime", "eval_loss"],
        ["7", "g0", "1", "0.5", "2", "-"],
        ["7", "g1", "1", "1.5", "2", "-"],
        ["7", "p%/[x]", "1", "2.5", "2", "-"],
        ["8", "-", "-", "-", "-", "9"],
    ]
