"""The run detail as text."""

from pathlib import Path

import pytest

from cli.render.run import detail
from cli.wire import Json
from tests.cli_answers import (
    FAILURE,
    SAVED_AT_40,
    attempt,
    record,
    restored,
    spent,
    split,
    three_attempts,
)

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
        savedStep=None,
        saved=None,
        attempts=[attempt(reason=FAILURE["reason"], outcome="failed", lastStep=60)],
    )

    assert failed == (GOLDEN / "get_failed.txt").read_text()


def test_the_detail_of_a_run_with_three_attempts_reads_as_agreed() -> None:
    """I6, S60, S61: what each did, from where, how exactly, why it ended, and what it cost."""
    shown = detail(three_attempts(), width=80, with_settings=False)

    assert shown == (GOLDEN / "get_attempts.txt").read_text()
    words = {word for word in shown.split() if len(word) > 60}
    assert max(len(line) for line in shown.split("\n") if not words & set(line.split())) <= 80


def test_on_a_wide_terminal_an_attempt_needs_no_broken_lines() -> None:
    """U18: each thing that is said of an attempt has one line."""
    lines = detail(three_attempts(), width=200, with_settings=False).split("\n")

    said = {line.strip() for line in lines}
    assert said >= {
        "1 save failed, the last one: the files could not be written: No space left on device",
        "from step 60 (snapshot 9b1c07e25a6f), restored within 3.5e-07 (optimizer within)",
    }


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

    assert "  GPU time          12.3 GPU-seconds, estimate\n" in running
    assert "estimate" not in text()


def test_time_of_processors_is_no_time_of_gpus() -> None:
    """S16: the unit is that of the devices."""
    cpu = text(
        cost={
            "deviceSeconds": 75.0,
            "estimate": False,
            "deviceKind": "cpu",
            "split": split(useful=60.0, repeated=15.0),
            "money": None,
        },
        attempts=[attempt(cost=spent(75.0, useful=60.0, repeated=15.0))],
    )

    assert "  Device time       75.0 device seconds (0:01:15)\n" in cpu
    assert "    repeated        15.0 device seconds\n" in cpu
    assert "75.0 device seconds (60.0 useful, 15.0 repeated)\n" in cpu
    assert "GPU" not in cpu


def test_money_is_shown_where_the_price_is_known() -> None:
    """S60: an estimate is marked, and small amounts keep their digits."""
    paid = {"currency": "EUR", "profile": "a100", "perAttempt": []}

    def shown(amount: float, *, estimate: bool) -> str:
        money = paid | {"amount": amount, "estimate": estimate}
        return text(cost={"deviceSeconds": 1.0, "deviceKind": "gpu", "money": money})

    assert "  Money             1,234.50 EUR (devices of profile a100)\n" in shown(
        1234.5, estimate=False
    )
    assert "  Money             0.000347 EUR (devices of profile a100), estimate\n" in shown(
        0.000347, estimate=True
    )
    assert "Money" not in text()


def paused(phase: str, **facts: object) -> str:
    """The lines about the pause of a run."""
    pause = {
        "checkpoint": "save",
        "requestedAt": "2026-11-29T10:00:00.125Z",
        "resourcesReleased": False,
        "failed": None,
    }
    shown = text(phase=phase, pause=pause | facts)
    return shown.partition("  Pause             ")[2].partition("\n  Progress")[0]


def test_a_pause_says_whether_the_devices_are_released() -> None:
    """I4: ``pause.resourcesReleased``, and how the run goes on."""
    asked = "--checkpoint save, asked for 2026-11-29 10:00:00 UTC\n                    "

    assert paused("PAUSING") == f"{asked}its devices are held until it has ended"
    assert paused("PAUSED", resourcesReleased=True) == (
        f"{asked}its devices are released\n"
        "                    `trainledger runs resume 0123456789abcdef` goes on"
    )
    assert paused("TRAINING", failed="there is no room on the disk") == (
        f"{asked}failed, the run goes on: there is no room on the disk"
    )
    assert "Pause" not in text()


def test_the_saved_step_names_the_snapshot_that_holds_it() -> None:
    """S10, I11: a run that saved only weights has no saved step."""
    saved = text(savedStep=40, saved={"snapshotId": SAVED_AT_40, "step": 40, "epoch": 0.5})
    nothing = text(savedStep=None, saved=None)

    assert "  Saved step        40 (snapshot 3f2a9c71bd04)\n" in saved
    assert "  Saved step        none\n" in nothing


def attempted(**facts: object) -> list[str]:
    """The lines about the only attempt of a run."""
    shown = text(None, attempts=[attempt(**facts)]).partition("  Attempt 1         ")[2]
    return [line.strip() for line in shown.rstrip("\n").split("\n")]


def check(verdict: str, **facts: object) -> Json:
    """What a worker said of its restore."""
    return {"verdict": verdict, "within": None, "parts": {}, "firstLoss": None} | facts


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (None, "from step 40 (snapshot 3f2a9c71bd04)"),
        (check("exact"), "from step 40 (snapshot 3f2a9c71bd04), restored exactly"),
        (
            check("within", within=1e-6),
            "from step 40 (snapshot 3f2a9c71bd04), restored within 1e-06",
        ),
        (
            check("differs", parts={"rng": "differs", "adapter": "exact", "optimizer": "within"}),
            "from step 40 (snapshot 3f2a9c71bd04), restored with a difference (rng differs, "
            "optimizer within)",
        ),
    ],
)
def test_a_restore_says_how_exact_it_was(said: Json | None, line: str) -> None:
    """C20: never silently different."""
    assert attempted(restoredFrom=restored(SAVED_AT_40, 40), restoreCheck=said)[1] == line


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"signal": 9, "exitCode": None}, "rank 1 of 2 ended first, by signal 9"),
        ({"signal": None, "exitCode": 70}, "rank 1 of 2 ended first, with exit code 70"),
    ],
)
def test_an_attempt_names_the_rank_that_ended_the_others(
    facts: dict[str, object], line: str
) -> None:
    """I6: the published sentence stays as it is, and this one stands under it."""
    shown = attempted(reason="it stopped", rank=1, **facts)

    assert shown[1:3] == ["ended: it stopped", line]


def test_of_a_rank_that_hung_nobody_says_that_it_ended_first() -> None:
    """I6: its reason names it, and the signal was ours."""
    reason = "rank 1 of the training job kept the others waiting for too long"

    shown = attempted(reason=reason, rank=1, code="rank-hung", signal=9, exitCode=None)

    assert shown[1] == f"ended: {reason}"
    assert not [line for line in shown if "ended first" in line]


def test_an_attempt_that_had_nothing_to_go_on_from_says_so() -> None:
    """I6: and what it could not use."""
    damaged = {"snapshotId": SAVED_AT_40, "step": 40, "reason": "the manifest is missing"}

    lines = attempted(
        firstStep=None,
        lastStep=None,
        restoredFrom=restored(None, 0, damaged),
        note="from the start: no snapshot could be restored",
        rejectedLines=2,
    )

    assert lines[:4] == [
        "no step on cuda:0 cuda:1",
        "from the start: no snapshot could be restored",
        "skipped step 40 (snapshot 3f2a9c71bd04): the manifest is missing",
        "2 lines of its reports rejected",
    ]


def test_the_settings_of_an_attempt_are_marked_as_such() -> None:
    """U8."""
    shown = detail(record(), width=80, with_settings=True, attempt=2)

    assert "\nSettings of attempt 2 (* stated by the plan)\n" in shown


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


@pytest.mark.parametrize(
    ("dataset", "shown"),
    [
        (f"dataset:support@{'39' * 32}", "dataset:support@393939393939"),
        (f"dataset:{'39' * 32}", "dataset:393939393939"),
        (f"/data/{'39' * 32}", f"/data/{'39' * 32}"),
    ],
)
def test_a_data_set_of_the_catalogue_is_shown_as_commands_take_it(dataset: str, shown: str) -> None:
    """S7, I14: its identity as short as others are; a file is shown whole."""
    assert f"  Dataset           {shown} (1,200 rows, 120 for validation)\n" in text(
        None, dataset=dataset
    )


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
    assert "  Device time       0.0 device seconds, estimate\n" in bare
    assert "  Device memory     not measured\n" in bare
