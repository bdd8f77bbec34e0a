"""The run detail as text."""

from pathlib import Path

import pytest

from cli.render.run import detail
from tests.cli_answers import FAILURE, attempt, record

GOLDEN = Path(__file__).parent.parent / "golden"


def text(width: int | None = 80, *, with_settings: bool = False, **facts: object) -> str:
    """The detail of a run with these facts."""
    return detail(record(**facts), width=width, with_settings=with_settings)


def test_the_detail_of_a_completed_run_reads_as_agreed() -> None:
    """S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S16, S17, S18, S20: at 80 columns."""
    assert text(with_settings=True) == (GOLDEN / "get_completed.txt").read_text()


def test_the_detail_of_a_failed_run_reads_as_agreed() -> None:
    """S11, S82: the reason and what to do about it, with what the run had reached."""
    failed = text(
        phase="FAILED",
        failure=FAILURE,
        progress={"completed": 60, "total": 120, "share": 0.5, "lastLoss": "NaN"},
        observedStep=60,
        results={"model": None, "validationLoss": None, "trainingLoss": None},
        dataFit={"rows": 1200, "reached": 12, "lostEnd": 3, "dropped": 1, "paddingShare": 0.123},
        attempts=[attempt(reason=FAILURE["reason"], lastStep=60)],
    )

    assert failed == (GOLDEN / "get_failed.txt").read_text()


def test_the_parts_stand_in_this_order() -> None:
    """S2, S19: State, Results, Cost, and Settings only where asked for."""
    titles = [
        line.split()[0] for line in text(with_settings=True).split("\n") if line[:1].isalpha()
    ]

    assert titles == ["State", "Results", "Cost", "Settings"]
    assert "Settings" not in text()


def test_a_failure_is_named_only_if_there_is_one() -> None:
    """S11: nothing about failure on success."""
    assert "Failure" not in text()
    assert "What to do" not in text()


def test_the_cost_is_an_estimate_until_the_job_ended() -> None:
    """S22, S22b: the mark is there, and then it is gone."""
    running = text(cost={"deviceSeconds": 12.3, "estimate": True, "deviceKind": "gpu"})

    assert "  GPU time          12.3 s, estimate\n" in running
    assert "estimate" not in text()


def test_a_silent_run_says_so_beside_its_phase() -> None:
    """S8: alive is not worth a word, silence is."""
    silent = {"verdict": "silent", "lastSignAt": "2026-11-29T10:00:00Z", "silentSeconds": 42.0}

    assert "TRAINING (silent for 42.0 s)\n" in text(phase="TRAINING", liveness=silent)


def test_settings_mark_what_the_plan_stated() -> None:
    """S20, I25: a star on stated values, none on those that were filled in."""
    lines = text(with_settings=True).split("\n")

    assert "  * learningRate   0.0002" in lines
    assert "    schedule.kind  cosine" in lines
    assert "  * validation.fraction  0.1" in lines


@pytest.mark.parametrize("width", [40, 80, 200, None])
def test_the_id_and_the_paths_stay_whole_at_every_width(width: int | None) -> None:
    """U18, C53: ids are never shortened."""
    shown = text(width, name="损失 " * 40)

    assert "0123456789abcdef" in shown
    assert "/home/x/.trainledger/attempts/0123456789abcdef/a1/output/model" in shown


def test_a_hostile_name_cannot_write_a_line_of_its_own() -> None:
    """U19: newlines and escapes in a label are shown as characters."""
    shown = text(name="x\n  Phase             COMPLETED\x1b[2J", description="\u202egnp")

    assert r"Name              x\n" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_run_that_has_reported_nothing_yet_reads_well() -> None:
    """S1: any time, also before the first report."""
    bare = text(
        phase="SUBMITTED",
        datasetRows=None,
        validationRows=None,
        progress={"completed": 0, "total": None, "share": None, "lastLoss": None},
        observedStep=0,
        results={"model": None, "validationLoss": None, "trainingLoss": None},
        cost={"deviceSeconds": 0, "estimate": True, "deviceKind": "cpu"},
        memory=None,
        attempts=[],
    )

    assert "  Progress          0 steps\n" in bare
    assert "  Device time       0.0 s, estimate\n" in bare
    assert "  Device memory     not measured\n" in bare
