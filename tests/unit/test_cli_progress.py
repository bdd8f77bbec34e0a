"""What a follower knows of a run, and the plain lines that it writes."""

from dataclasses import replace
from functools import reduce

from cli.progress import Progress, advance, of_record
from cli.render.progress import status, step_line
from cli.rhythm import Rhythm
from tests.cli_answers import (
    SAVED_AT_40,
    SAVED_AT_60,
    ended,
    event,
    record,
    step,
    story,
    story_of_a_pause,
    story_of_two,
)
from tests.cli_server import RUN


def told(events: list[dict[str, object]], *, seconds_apart: float) -> list[str]:
    """The plain lines for these events when they come so many seconds apart."""
    progress = Progress(phase="SUBMITTED", run_id=RUN)
    rhythm = Rhythm(told=progress)
    lines: list[str] = []
    for number, each in enumerate(events):
        before, progress = progress, advance(progress, each)
        lines += rhythm.lines(before, progress, now=number * seconds_apart)
    return lines


def test_a_run_is_told_by_its_phases_stages_and_steps() -> None:
    """S50: a line for each phase, the rows of a stage, the steps."""
    assert told(story(), seconds_apart=5) == [
        "PREPARING",
        "  tokenizing: 5 of 10",
        "TRAINING",
        "  step 1 of 3 (33.3%), loss 1",
        "  step 2 of 3 (66.7%), loss 0.5, 1.00 steps/s, 1.0 s left",
        "  step 3 of 3 (100%), loss 0.3333, 1.00 steps/s",
        "COMPLETED",
    ]


def test_steps_that_come_fast_are_told_at_a_rhythm_and_the_last_always() -> None:
    """S50: a pipe is not flooded, and the last step is in it."""
    steps = [step(10 + number, number) for number in range(1, 101)]

    lines = told([*steps, ended(200, "CANCELLED")], seconds_apart=0.1)

    numbers = [int(line.split()[1].rstrip(",")) for line in lines if "step" in line.split()]
    assert numbers == [1, 21, 41, 61, 81, 100]
    assert lines[-1] == "CANCELLED"


def test_every_validation_is_told_at_once() -> None:
    """S13: validation losses are rare and wanted."""
    validations = [
        event(n, "validationReported", step=n, measured={"eval_loss": 1 / n}) for n in (2, 4)
    ]

    assert told(validations, seconds_apart=0) == [
        "  validation after step 2: loss 0.5",
        "  validation after step 4: loss 0.25",
    ]


def test_the_rate_is_that_of_the_current_attempt() -> None:
    """U17: a pause between two attempts slows nothing down."""
    first = [step(10, 1), step(20, 2)]
    second = [
        event(500, "attemptOpened", attempt=2),
        step(510, 3, attempt=2),
        step(512, 4, attempt=2),
    ]

    progress = reduce(advance, [*first, *second], Progress(phase="TRAINING", total_steps=10))

    assert progress.steps_per_second == 0.5
    assert progress.seconds_left == 12


def test_a_run_that_goes_on_after_a_crash_tells_from_where() -> None:
    """S50, U17: why the attempt ended, what was damaged, and where the next one goes on."""
    assert told(story_of_two(), seconds_apart=1) == [
        "QUEUED",
        "TRAINING",
        "  step 1 of 4 (25.0%), loss 1",
        "  step 3 of 4 (75.0%), loss 0.25, 0.50 steps/s, 2.0 s left",
        "attempt 1 ended at step 3: the training job stopped before it finished",
        "WAITING",
        "snapshot 9b1c07e25a6f is damaged: a file is missing",
        "attempt 2 goes on from step 2 (snapshot 3f2a9c71bd04)",
        "QUEUED",
        "TRAINING",
        "  step 3 of 4 (75.0%), loss 0.25",
        "  step 4 of 4 (100%), loss 0.125, 1.00 steps/s",
        "COMPLETED",
    ]


def test_a_paused_run_is_followed_and_says_how_it_goes_on() -> None:
    """I4: PAUSED is no end, and the next line may come a week later."""
    lines = told(story_of_a_pause(), seconds_apart=1)

    start = lines.index("PAUSING")
    assert lines[start : start + 5] == [
        "PAUSING",
        "attempt 1 ended at step 3: the run was paused",
        f"PAUSED: `trainledger runs resume {RUN}` goes on",
        "WAITING",
        "attempt 2 goes on from step 2 (snapshot 3f2a9c71bd04)",
    ]
    assert lines[-1] == "COMPLETED"


def test_what_goes_wrong_with_snapshots_is_told_in_a_line_each() -> None:
    """I4, C20: reasons as the ledger has them, and no control byte."""
    parts = {"adapter": "exact", "rng": "differs"}

    assert told(
        [
            event(1, "saveFailed", attempt=1, step=40, reason="there is no room\x1b[2J"),
            event(2, "snapshotRejected", attempt=1, step=40, reason="it holds no files"),
            event(3, "pauseFailed", reason="update 57 was not saved"),
            event(4, "restored", attempt=2, step=0),
            event(5, "restored", attempt=2, step=8),
            event(6, "restoreChecked", attempt=2, step=8, verdict="differs", parts=parts),
            event(7, "restoreChecked", attempt=2, step=8, verdict="within", within=1e-6, parts={}),
            event(8, "restoreChecked", attempt=2, step=8, verdict="exact", parts={}),
            event(9, "attemptClosed", attempt=2, step=8, mayRetry=False, reason="refused"),
        ],
        seconds_apart=1,
    ) == [
        r"  step 40 was not saved: there is no room\x1b[2J",
        "  step 40 was not saved: it holds no files",
        "the pause failed, the run goes on: update 57 was not saved",
        "attempt 2 begins from the start",
        "attempt 2 went back to step 8",
        "  what was restored differs from what was saved (rng differs)",
        "  what was restored is what was saved within 1e-06",
    ]


def test_after_a_restore_the_rate_is_new_and_the_progress_is_that_of_the_run() -> None:
    """U17: speed and time left from the current attempt only."""
    first = [step(10 + n, n) for n in range(1, 58)]
    restored = event(100, "restored", attempt=2, step=40, snapshotId=SAVED_AT_40)
    opened = event(99, "attemptOpened", attempt=2)

    before = reduce(advance, first, Progress(phase="TRAINING", attempt=1, total_steps=100))
    back = reduce(advance, [opened, restored], before)
    after = reduce(advance, [step(110, 41, attempt=2), step(114, 42, attempt=2)], back)

    assert (before.step, before.steps_per_second) == (57, 1.0)
    assert (back.step, back.steps_per_second, back.seconds_left) == (40, None, None)
    assert back.loss is None
    assert (after.step, after.steps_per_second, after.seconds_left) == (42, 0.25, 232.0)
    assert step_line(after).startswith("  step 42 of 100 (42.0%)")


def test_a_validation_that_was_taken_back_is_told_again() -> None:
    """D5: the same step and the same loss, of another attempt."""
    validated = event(2, "validationReported", step=60, measured={"loss": 0.5})
    restored = event(3, "restored", attempt=2, step=40, snapshotId=SAVED_AT_60)

    lines = told([validated, restored, validated | {"position": 4}], seconds_apart=1)

    assert lines.count("  validation after step 60: loss 0.5") == 2


def test_steps_of_a_new_attempt_are_not_measured_against_the_old_one() -> None:
    """U17: the same when following begins in the middle."""
    progress = reduce(advance, [step(10, 1), step(500, 2, attempt=2)], Progress(phase="TRAINING"))

    assert progress.steps_per_second is None


def test_rates_are_readable_from_the_slowest_to_the_fastest() -> None:
    """U17: hours a step and thousands of steps a second."""

    def rate(seconds_for_ten: float) -> str:
        recent = ((1, 0.0), (11, seconds_for_ten))
        return step_line(Progress(phase="TRAINING", step=11, recent=recent))

    assert rate(0.001) == "  step 11, 10,000 steps/s"
    assert rate(4) == "  step 11, 2.50 steps/s"
    assert rate(36_000) == "  step 11, 1:00:00 a step"


def test_a_restore_takes_the_step_back() -> None:
    """S26: after a restore to 40 the run is at 40."""
    before = replace(Progress(phase="TRAINING"), step=57)

    assert advance(before, event(9, "restored", step=40)).step == 40


def test_an_unknown_kind_of_event_changes_nothing() -> None:
    """S50: a newer service may say more than this command line knows."""
    before = Progress(phase="TRAINING")

    assert advance(before, event(9, "somethingNew", phase="X")) is before


def test_following_begins_where_the_record_stands() -> None:
    """S45: what was reached before is known."""
    progress = of_record(record(phase="TRAINING"))

    assert (progress.phase, progress.step, progress.total_steps) == ("TRAINING", 120, 120)
    assert (progress.loss, progress.attempt, progress.run_id) == (0.5123, 1, RUN)


def test_the_status_shows_a_bar_and_fits_the_terminal() -> None:
    """S50, S9: steps done of total, loss, rate, time left."""
    progress = reduce(
        advance,
        [event(1, "trainingBegan", totalSteps=100), *[step(10 + n, n) for n in range(1, 26)]],
        Progress(phase="TRAINING"),
    )

    assert status(progress, 80).split("\n") == [
        "  [######..................] step 25 of 100 (25.0%)",
        "  loss 0.04, 1.00 steps/s, 0:01:15 left",
    ]
    assert max(len(line) for line in status(progress, 20).split("\n")) == 20


def test_a_stage_with_hostile_text_stays_on_its_line() -> None:
    """U19: a worker's words cannot move the cursor."""
    progress = advance(Progress(phase="PREPARING"), event(1, "stageReported", stage="a\x1b[2J\nb"))

    assert status(progress, 80) == "  a\\x1b[2J\\nb"


def test_the_reason_for_a_failure_stands_beside_its_phase() -> None:
    """S52: the terminal event has the reason."""
    last = told(story("FAILED"), seconds_apart=5)[-1]

    assert last.startswith("FAILED: the training job ran out of device memory; ")
