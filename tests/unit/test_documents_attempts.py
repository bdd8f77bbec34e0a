"""Attempts in the record of a run: what each began from, how that went, and pauses between them."""

import math
from typing import Any

import pytest

from ledger.events import Agreement, Event
from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.errors import UnknownAttemptError
from tests import make


def documents(*made: make.Made) -> Documents:
    history = make.History(*made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    return documents


def record(*made: make.Made, attempt: int | None = None) -> dict[str, Any]:
    """The record of a run after these events."""
    found = documents(*made).get(make.RUN, attempt)
    assert found is not None
    return found


def newest(*made: make.Made) -> dict[str, Any]:
    """The newest attempt of the run."""
    attempt: dict[str, Any] = record(*made)["attempts"][-1]
    return attempt


def waiting(to: int = 60) -> list[make.Made]:
    """A run that lost its first attempt after update ``to``, and saved every 20th."""
    saves = [make.saved(n) for n in range(20, to + 1, 20)]
    return [make.training(), make.steps(to), saves, make.lost(1)]


def again(step: int, name: str | None = None, attempt: int = 2) -> list[Event]:
    """The next attempt begins, from the snapshot ``name``."""
    source = None if name is None else make.snapshot_id(name)
    return [
        make.opened(attempt, snapshot_id=source),
        make.begun_from(step, attempt, snapshot_id=source),
        make.phase("QUEUED"),
    ]


# -- what an attempt began from --------------------------------------------------------------------


def test_a_first_attempt_was_restored_from_nothing() -> None:
    """I6."""
    found = newest(make.training())

    assert (found["restoredFrom"], found["note"], found["restoreCheck"]) == (None, None, None)


def test_a_later_attempt_says_which_snapshot_it_went_on_from() -> None:
    """I6, S26: and the run is at that step before anything new is reported."""
    found = record(waiting(), again(60, "60"))

    assert found["observedStep"] == 60
    assert found["attempts"][1]["restoredFrom"] == {
        "snapshotId": make.snapshot_id("60"),
        "step": 60,
        "skipped": [],
    }
    assert found["attempts"][1]["note"] is None


def test_snapshots_that_were_found_damaged_are_told_as_skipped() -> None:
    """C26, S27: which ones, of which step and why; the attempt goes on from the one before."""
    found = newest(waiting(), make.damaged("60"), make.damaged("40"), again(20, "20"))

    assert found["restoredFrom"] == {
        "snapshotId": make.snapshot_id("20"),
        "step": 20,
        "skipped": [
            {
                "snapshotId": make.snapshot_id("60"),
                "step": 60,
                "reason": "a file has other bytes",
            },
            {
                "snapshotId": make.snapshot_id("40"),
                "step": 40,
                "reason": "a file has other bytes",
            },
        ],
    }
    assert found["note"] == "from step 20: 2 newer snapshots were damaged"


def test_only_what_was_found_since_the_attempt_before_is_skipped() -> None:
    found = record(
        make.training(),
        make.steps(60),
        [make.saved(n) for n in (20, 40, 60)],
        make.damaged("40"),  # while the attempt was at work
        make.lost(1),
        make.damaged("60"),
        again(20, "20"),
        make.lost(2),
        again(20, "20", attempt=3),
    )["attempts"]

    skipped = [each["snapshotId"] for each in found[1]["restoredFrom"]["skipped"]]
    assert skipped == [make.snapshot_id("60")]
    assert found[1]["note"] == "from step 20: a newer snapshot was damaged"
    assert found[2]["restoredFrom"]["skipped"] == []


def test_an_attempt_that_begins_from_the_start_says_why() -> None:
    found = [
        newest(make.training(), make.steps(5), make.lost(1), again(0)),
        newest(waiting(20), make.damaged("20"), again(0)),
    ]

    assert [each["restoredFrom"]["snapshotId"] for each in found] == [None, None]
    assert [each["restoredFrom"]["step"] for each in found] == [0, 0]
    assert [each["note"] for each in found] == [
        "from the start: there was no snapshot to go on from",
        "from the start: no snapshot could be restored",
    ]


def test_an_attempt_says_how_it_ended() -> None:
    """I6: for people, and stable for programs."""
    found = record(
        make.training(),
        make.lost(1, exit_code=137, signal=9, rank=1),
        again(0),
        make.phase("TRAINING"),
    )["attempts"]

    assert (found[0]["outcome"], found[0]["code"]) == ("failed", "vanished")
    assert (found[0]["endClass"], found[0]["reason"]) == ("infrastructure", "the job was lost")
    assert (found[0]["exitCode"], found[0]["signal"], found[0]["rank"]) == (137, 9, 1)
    assert found[1]["rank"] is None
    assert (found[1]["outcome"], found[1]["code"], found[1]["closedAt"]) == (None, None, None)


def test_an_attempt_was_last_heard_of_with_its_newest_line() -> None:
    found = newest(
        make.submitted(at=0),
        make.opened(at=1),
        make.started(at=2),
        make.step(1, at=9),
        make.cancel_requested(at=20),
    )

    assert found["openedAt"] == "2026-12-01T08:00:01.000Z"
    assert found["lastSignAt"] == "2026-12-01T08:00:09.000Z"


# -- whether the restore is true -------------------------------------------------------------------


def checked(*said: make.Made) -> Any:
    """The check of a second attempt, from update 2 of 3 whose losses are 4, 2 and 1."""
    losses = [make.step(n, loss=loss) for n, loss in enumerate([4.0, 2.0, 1.0], start=1)]
    begun = again(2, "2")
    check: Any = newest(
        make.training(), losses, make.saved(2), make.lost(1), begun, make.began(attempt=2), *said
    )["restoreCheck"]
    return check


def test_what_the_worker_compared_is_told_with_its_verdict() -> None:
    found = checked(
        make.restore_checked(2, "within", within=1e-7, adapter="exact", optimizer="within")
    )

    assert found == {
        "verdict": "within",
        "within": 1e-7,
        "parts": {"adapter": "exact", "optimizer": "within"},
        "firstLoss": None,
    }


@pytest.mark.parametrize(
    ("after", "verdict", "within"),
    [
        (1.0, "exact", None),
        (1.0009, "within", 0.0009 / 1.0009),
        (0.998, "differs", 0.002),
        (4.0, "differs", 0.75),
        (math.nan, "differs", None),
        (math.inf, "differs", None),
        (-1e308, "differs", 1.0),
    ],
)
def test_the_first_loss_after_a_restore_is_compared_with_the_one_of_that_step_before(
    after: float, verdict: str, within: float | None
) -> None:
    """U1: what was taken back is good for one thing more."""
    found = checked(make.restore_checked(2, rng="exact"), make.step(3, attempt=2, loss=after))

    first = found["firstLoss"]
    assert (first["step"], first["before"]) == (3, 1.0)
    assert first["verdict"] == found["verdict"] == verdict
    assert first["within"] == (None if within is None else pytest.approx(within))


def test_the_same_nan_is_the_same() -> None:
    """U11."""
    found = newest(
        make.training(),
        make.step(1, loss=1.0),
        make.step(2, loss=math.nan),
        make.lost(1),
        again(1),
        make.step(2, attempt=2, loss=math.nan),
    )["restoreCheck"]

    assert found == {
        "verdict": "exact",
        "within": None,
        "parts": {},
        "firstLoss": {
            "step": 2,
            "before": "NaN",
            "after": "NaN",
            "verdict": "exact",
            "within": None,
        },
    }


@pytest.mark.parametrize(
    ("said", "part", "loss", "worst"),
    [
        ("exact", "exact", 1.0, "exact"),
        ("exact", "exact", 1.0001, "within"),
        ("within", "within", 1.0, "within"),
        ("exact", "differs", 1.0, "differs"),
        ("exact", "exact", 2.0, "differs"),
    ],
)
def test_a_restore_is_as_true_as_its_worst_part(
    said: Agreement, part: Agreement, loss: float, worst: str
) -> None:
    found = checked(make.restore_checked(2, said, rng=part), make.step(3, attempt=2, loss=loss))

    assert found["verdict"] == worst


def test_only_the_very_first_update_is_compared() -> None:
    """A loss of another update says nothing; a second report of the same one may have it."""
    later = checked(make.step(3, {"kl": 0.5}, attempt=2), make.step(4, attempt=2, loss=9.0))
    other = checked(make.step(4, attempt=2, loss=9.0), make.step(5, attempt=2, loss=1.0))
    merged = checked(make.step(3, {"kl": 0.5}, attempt=2), make.step(3, attempt=2, loss=1.0))

    assert later is None
    assert other is None
    assert merged["firstLoss"]["after"] == 1.0


def test_an_update_that_was_never_made_before_has_nothing_to_compare_with() -> None:
    assert newest(waiting(20), again(20, "20"), make.step(21, attempt=2))["restoreCheck"] is None


def test_the_loss_that_counted_last_is_the_one_to_compare_with() -> None:
    """An attempt between that made the update again; one that made none; one that got further."""
    losses = [make.step(n, loss=float(n)) for n in range(1, 6)]
    begun: list[make.Made] = [make.training(), *losses, make.saved(2), make.lost(1)]
    second = [*again(2, "2"), make.step(3, attempt=2, loss=3.5)]

    redone = newest(
        begun, second, make.lost(2), again(2, "2", 3), make.step(3, attempt=3, loss=3.5)
    )
    idle = newest(
        begun, again(2, "2"), make.lost(2), again(2, "2", 3), make.step(3, attempt=3, loss=3.0)
    )
    further = newest(
        begun,
        second,
        make.saved(3, attempt=2),
        make.lost(2),
        again(3, "3", 3),
        make.step(4, attempt=3, loss=4.0),
    )

    firsts = [each["restoreCheck"]["firstLoss"] for each in (redone, idle, further)]
    assert [(each["before"], each["after"], each["verdict"]) for each in firsts] == [
        (3.5, 3.5, "exact"),
        (3.0, 3.0, "exact"),
        (4.0, 4.0, "exact"),
    ]


def test_a_trainer_that_went_back_by_itself_need_not_do_the_same_again() -> None:
    found = newest(
        make.training(),
        make.steps(5),
        make.restored(2, attempt=1),
        make.step(3, loss=100.0),
    )

    assert found["restoreCheck"] is None


# -- saving ----------------------------------------------------------------------------------------


def test_saves_that_failed_are_counted_and_the_newest_five_are_told() -> None:
    found = newest(
        make.training(),
        make.offered(1),
        make.snapshot_rejected(1, "a file is missing"),
        [make.save_failed(n, f"no room for update {n}") for n in range(2, 8)],
    )

    assert found["failedSaves"] == 7
    assert found["saveFailures"] == [f"no room for update {n}" for n in range(3, 8)]


def test_a_save_that_failed_belongs_to_the_attempt_that_wrote_it() -> None:
    """Also when that is found out after its end."""
    found = record(
        make.training(),
        make.offered(1),
        make.lost(1),
        make.snapshot_rejected(1, "a file is missing"),
        again(0),
    )["attempts"]

    assert [each["failedSaves"] for each in found] == [1, 0]


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_frozen_per_attempt() -> None:
    """U8: a resume does not overwrite what the first attempt ran with."""
    history: list[make.Made] = [
        make.training(),
        make.hparams({"lr": 0.1}),
        make.engine_config({"bf16": True}, {"bf16": False}),
        make.lost(1),
        make.opened(2, devices=["cpu:1"]),
        make.begun_from(0, 2),
    ]
    told: list[make.Made] = [*history, make.started(2), make.hparams({"lr": 0.2}, attempt=2)]

    first = record(told, attempt=1)["settings"]
    second = record(told)["settings"]

    assert first["hyperparameters"] == {"lr": 0.1}
    assert first["engineSettings"] == {"requested": {"bf16": True}, "resolved": {"bf16": False}}
    assert first["runtime"]["claimedDevices"] == ["cpu:0"]
    assert second["hyperparameters"] == {"lr": 0.2}
    assert second["engineSettings"] is None
    assert second["runtime"]["claimedDevices"] == ["cpu:1"]
    assert record(told, attempt=2)["settings"] == second
    assert record(history)["settings"]["hyperparameters"] is None


def test_settings_of_an_attempt_that_never_was_are_refused() -> None:
    with pytest.raises(UnknownAttemptError, match="has no attempt 7; it has 1"):
        record(make.training(), attempt=7)


# -- pauses ----------------------------------------------------------------------------------------

PAUSED: dict[str, Any] = {"end_class": "stopped", "outcome": "paused", "reason": "it was paused"}


def test_a_pause_is_told_from_its_request_until_the_run_goes_on() -> None:
    """I4: resources are released when the job is over, and not before."""
    asked = [
        *make.training(),
        *make.steps(5),
        make.pause_requested("save", at=60),
        make.phase("PAUSING", at=60),
    ]
    closed = [*asked, *make.saved(5), make.reports_closed(), make.closed(1, **PAUSED)]
    paused = [*closed, make.phase("PAUSED")]
    resumed = [*paused, make.resumed(), make.phase("WAITING")]

    assert record(make.training())["pause"] is None
    assert record(asked)["pause"] == {
        "checkpoint": "save",
        "requestedAt": "2026-12-01T08:01:00.000Z",
        "resourcesReleased": False,
        "failed": None,
    }
    assert record(closed)["pause"]["resourcesReleased"] is True
    assert record(paused)["pause"] == record(closed)["pause"]
    assert record(paused)["phase"] == "PAUSED"
    assert record(resumed)["pause"] is None


def test_a_run_that_holds_nothing_is_paused_at_once() -> None:
    """I4."""
    found = record(make.submitted(), make.pause_requested("save"), make.phase("PAUSED"))

    assert found["pause"]["resourcesReleased"] is True


def test_a_pause_that_failed_says_why_until_it_is_asked_for_again() -> None:
    """I4: a failed save never counts as success."""
    failed = [
        *make.training(),
        make.pause_requested("save"),
        make.phase("PAUSING"),
        make.pause_failed("the disk is full"),
        make.phase("TRAINING"),
    ]

    assert record(failed)["pause"]["failed"] == "the disk is full"
    assert record(failed)["pause"]["resourcesReleased"] is False
    asked_again = record(failed, make.pause_requested("latest"))["pause"]
    assert (asked_again["checkpoint"], asked_again["failed"]) == ("latest", None)


@pytest.mark.parametrize(
    "over",
    [make.cancel_requested(), make.cancelled(), make.completed(), make.failed()],
    ids=["cancelling", "cancelled", "completed", "failed"],
)
def test_a_run_that_is_over_or_being_cancelled_is_not_paused(over: Event) -> None:
    found = record(make.submitted(), make.pause_requested("save"), make.phase("PAUSED"), over)

    assert found["pause"] is None


def test_a_save_that_fails_after_a_cancel_brings_no_pause_back() -> None:
    found = record(
        make.training(),
        make.pause_requested("save"),
        make.cancel_requested(),
        make.pause_failed("the disk is full"),
    )

    assert found["pause"] is None
