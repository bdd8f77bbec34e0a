"""What a run cost, and what for: parts that add up to the time that devices were held."""

from typing import Any

import pytest

from ledger.events import Event
from ledger.store.sqlite import Database
from projections.documents import Documents
from tests import make

NOTHING = {
    "usefulSeconds": 0.0,
    "repeatedSeconds": 0.0,
    "preparingSeconds": 0.0,
    "waitingSeconds": 0.0,
    "idleSeconds": 0.0,
}
LOST: dict[str, Any] = {
    "end_class": "infrastructure",
    "outcome": "failed",
    "reason": "the job was lost",
}
PAUSED: dict[str, Any] = {"end_class": "stopped", "outcome": "paused", "reason": "it was paused"}


def record(*made: make.Made) -> dict[str, Any]:
    """The record of a run after these events."""
    history = make.History(*made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    found = documents.get(make.RUN)
    assert found is not None
    return found


def split(**seconds: float) -> dict[str, float]:
    """A whole split, of which only these parts are something."""
    return NOTHING | {f"{part}Seconds": each for part, each in seconds.items()}


def splits(*made: make.Made) -> list[dict[str, float]]:
    """Those of the attempts, each of which adds up; what is not said is nothing."""
    found = [each["cost"] for each in record(*made)["attempts"]]
    for cost in found:
        assert sum(cost["split"].values()) == pytest.approx(cost["deviceSeconds"])
    return [cost["split"] for cost in found]


def begun(attempt: int, at: float, step: int = 0) -> list[Event]:
    """An attempt that waits for 2 seconds, prepares for 3, and begins to train after ``step``."""
    return [
        make.opened(attempt, at=at, snapshot_id=make.snapshot_id(str(step)) if step else None),
        *([make.begun_from(step, attempt, at=at)] if attempt > 1 else []),
        make.phase("QUEUED", at=at),
        make.started(attempt, at=at + 2),
        make.phase("PREPARING", at=at + 2),
        make.phase("TRAINING", at=at + 5),
        make.began(attempt=attempt, at=at + 5),
    ]


def updates(first: int, last: int, at: float, attempt: int = 1) -> list[Event]:
    """Updates of a second each, the first of which is done a second after ``at``."""
    return [
        make.step(n, attempt=attempt, at=at + n - first + 1, loss=1 / n)
        for n in range(first, last + 1)
    ]


def written(step: int, at: float, attempt: int = 1) -> list[Event]:
    return [make.offered(step, attempt, at=at), make.snapshot_reported(step, attempt, at=at)]


# -- device time -----------------------------------------------------------------------------------


def test_until_the_job_ended_the_cost_is_an_estimate_of_training_time_times_devices() -> None:
    """S22b: estimate = training time x devices requested, and it says so."""
    found = record(
        make.submitted(at=0, engine={"command": ["train"]}, execution={"devices": 2}),
        make.opened(at=5, devices=["cuda:0", "cuda:1"]),
        make.phase("PREPARING", at=6),
        make.phase("TRAINING", at=10),
        make.began(at=10),
        make.step(1, at=17.5),
    )

    assert found["cost"] == {
        "deviceSeconds": 15.0,
        "estimate": True,
        "deviceKind": "gpu",
        "split": split(preparing=10.0, useful=15.0),
        "throughput": None,
    }
    assert found["attempts"][0]["deviceSeconds"] is None
    assert found["attempts"][0]["cost"] == {
        "deviceSeconds": 15.0,
        "estimate": True,
        "split": split(preparing=10.0, useful=15.0),
    }


def test_after_the_job_ended_the_cost_counts_from_the_claim_to_the_release() -> None:
    """S22, S16: devices x (released - claimed), and the mark is gone."""
    found = record(
        make.submitted(at=0, engine={"command": ["train"]}, execution={"devices": 2}),
        make.opened(at=5, devices=["cuda:0", "cuda:1"]),
        make.phase("TRAINING", at=10),
        make.closed(at=20),
        make.completed(at=20),
    )

    cost = found["cost"]
    assert (cost["deviceSeconds"], cost["estimate"], cost["deviceKind"]) == (30.0, False, "gpu")
    assert found["attempts"][0]["deviceSeconds"] == 30.0
    assert found["attempts"][0]["cost"]["deviceSeconds"] == 30.0


def test_a_lost_attempt_costs_until_its_last_sign_of_life() -> None:
    """C44, U4: not until somebody noticed."""
    found = record(
        make.submitted(at=0),
        make.opened(at=5),
        make.phase("TRAINING", at=6),
        make.closed(at=100, last_sign=25, end_class="infrastructure", reason="the job was lost"),
        make.failed(at=100),
    )

    assert found["cost"] == {
        "deviceSeconds": 20.0,
        "estimate": False,
        "deviceKind": "cpu",
        "split": split(idle=20.0),
        "throughput": None,
    }
    assert found["attempts"][0]["closedAt"] == "2026-12-01T08:01:40.000Z"
    assert found["attempts"][0]["lastSignAt"] == "2026-12-01T08:00:25.000Z"


def test_attempts_are_summed_and_only_the_open_one_is_estimated() -> None:
    """S22b, S60: what an earlier attempt trained is not counted again."""
    found = record(
        make.submitted(at=0),
        make.opened(1, at=0),
        make.phase("TRAINING", at=10),
        make.closed(1, at=30),
        make.phase("WAITING", at=30),
        make.opened(2, at=40),
        make.phase("TRAINING", at=50),
        make.step(1, attempt=2, at=57),
    )

    assert (found["cost"]["deviceSeconds"], found["cost"]["estimate"]) == (37.0, True)
    assert [each["cost"]["deviceSeconds"] for each in found["attempts"]] == [30.0, 7.0]
    assert [each["cost"]["estimate"] for each in found["attempts"]] == [False, True]


def test_a_run_without_a_job_has_cost_nothing_yet() -> None:
    assert record(make.submitted())["cost"] == {
        "deviceSeconds": 0,
        "estimate": True,
        "deviceKind": None,
        "split": NOTHING,
        "throughput": None,
    }


def test_preparing_without_devices_costs_nothing() -> None:
    """D12, S30: ten minutes before the claim are no device time; the claim is."""
    history: list[make.Made] = [
        make.submitted(at=0),
        make.phase("PREPARING", at=1),
        make.phase("WAITING", at=601),
    ]

    assert record(*history)["cost"]["deviceSeconds"] == 0
    assert record(*history)["timing"]["phaseMillis"]["PREPARING"] == 600_000


def test_a_run_that_ended_without_a_job_cost_nothing_for_good() -> None:
    cost = record(make.submitted(), make.cancelled())["cost"]

    assert (cost["deviceSeconds"], cost["estimate"], cost["deviceKind"]) == (0, False, None)


def test_a_paused_run_holds_no_devices_and_trains_no_longer() -> None:
    """S22b, I4: the time from pause to resume is no training, and costs nothing."""
    history: list[make.Made] = [
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 10, at=5),
        make.pause_requested(at=15),
        make.phase("PAUSING", at=15),
        written(10, at=17),
        make.closed(1, at=18, **PAUSED),
        make.phase("PAUSED", at=18),
        make.pinned("10", at=900),
    ]
    resumed = [make.resumed(at=1000), make.phase("WAITING", at=1000), *begun(2, at=1010, step=10)]

    paused, found = record(*history), record(*history, resumed, make.step(11, attempt=2, at=1016))

    assert paused["cost"]["deviceSeconds"] == 18.0
    assert paused["cost"]["estimate"] is False
    assert paused["timing"]["split"]["trainingMillis"] == 13_000
    assert found["cost"]["deviceSeconds"] == 18.0 + 1.0
    assert found["timing"]["phaseMillis"]["PAUSED"] == 982_000
    assert found["timing"]["split"]["trainingMillis"] == 14_000


# -- what it was for -------------------------------------------------------------------------------


def test_every_second_of_a_run_that_completed_has_one_purpose() -> None:
    """S60, I6: waiting, preparing, updates and what came after them, then silence."""
    (found,) = splits(
        make.submitted(at=0),
        begun(1, at=10),
        updates(1, 10, at=15),
        make.validation(10, at=27, eval_loss=1.0),
        make.model(10, at=28),
        make.closed(at=31),
        make.completed(at=31),
    )

    assert found == split(waiting=2.0, preparing=3.0, useful=13.0, idle=3.0)


def test_steps_41_to_57_done_twice_are_paid_twice() -> None:
    """S61, S60: the second time is useful, the first one was for nothing."""
    found = record(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 57, at=5),
        make.closed(1, at=92, last_sign=70, **LOST),
        make.phase("WAITING", at=92),
        begun(2, at=100, step=40),
        updates(41, 60, at=105, attempt=2),
        make.closed(2, at=125),
        make.completed(at=125),
    )

    first, second = [each["cost"] for each in found["attempts"]]
    assert first == {
        "deviceSeconds": 70.0,
        "estimate": False,
        "split": split(waiting=2.0, preparing=3.0, useful=40.0, repeated=17.0, idle=8.0),
    }
    assert second == {
        "deviceSeconds": 25.0,
        "estimate": False,
        "split": split(waiting=2.0, preparing=3.0, useful=20.0),
    }
    assert found["cost"]["deviceSeconds"] == 95.0
    assert found["cost"]["split"] == split(
        waiting=4.0, preparing=6.0, useful=60.0, repeated=17.0, idle=8.0
    )
    assert found["attempts"][0]["superseded"] == {"fromStep": 41, "toStep": 57, "steps": 17}
    assert found["attempts"][1]["superseded"] is None


def test_a_restore_gives_no_time_and_no_cost_back() -> None:
    """D5: cost and timing are never truncated; only what the time was for changes."""
    before = [
        make.submitted(at=0),
        *begun(1, at=0),
        *updates(1, 60, at=5),
        make.closed(1, at=65, **LOST),
        make.phase("WAITING", at=65),
    ]
    after = [*before, make.opened(2, at=70), make.begun_from(0, 2, at=70)]

    old, new = record(*before), record(*after)

    assert new["cost"]["deviceSeconds"] == old["cost"]["deviceSeconds"] == 65.0
    assert old["cost"]["split"] == split(waiting=2.0, preparing=3.0, useful=60.0)
    assert new["cost"]["split"] == split(waiting=2.0, preparing=3.0, repeated=60.0)
    assert new["timing"]["phaseMillis"] == {**old["timing"]["phaseMillis"], "WAITING": 5000}
    assert new["results"]["trainingLoss"] is None
    assert new["latest"] is None


def test_nested_restores_move_time_of_every_attempt_that_they_reach() -> None:
    """C32: 1-125, back to 120, on to 123, back to 100, on to 110."""
    found = record(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 125, at=5),
        make.closed(1, at=130, **LOST),
        begun(2, at=200, step=120),
        updates(121, 123, at=205, attempt=2),
        make.closed(2, at=208, **LOST),
        begun(3, at=300, step=100),
        updates(101, 110, at=305, attempt=3),
    )["attempts"]

    trained = [
        (each["cost"]["split"]["usefulSeconds"], each["cost"]["split"]["repeatedSeconds"])
        for each in found
    ]
    assert trained == [(100.0, 25.0), (0.0, 3.0), (10.0, 0.0)]
    assert [each["superseded"] for each in found] == [
        {"fromStep": 101, "toStep": 125, "steps": 25},
        {"fromStep": 121, "toStep": 123, "steps": 3},
        None,
    ]


def test_a_trainer_that_goes_back_by_itself_repeats_what_it_did_until_then() -> None:
    """C32, inside one attempt: an update that was made twice is counted twice."""
    (attempt,) = record(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 125, at=5),
        make.restored(120, attempt=1, at=134),
        updates(121, 123, at=134),
        make.restored(100, attempt=1, at=139),
        updates(101, 110, at=139),
        make.closed(1, at=149),
    )["attempts"]

    assert attempt["cost"]["split"] == split(
        waiting=2.0, preparing=3.0, useful=100.0 + 10.0, repeated=25.0 + 4.0 + 3.0 + 2.0
    )
    assert attempt["superseded"] == {"fromStep": 101, "toStep": 125, "steps": 28}


def test_several_reports_of_an_update_are_one_update() -> None:
    """C34: all of its time goes with it."""
    (first, _) = record(
        make.submitted(at=0),
        begun(1, at=0),
        make.step(1, {"loss": 1.0}, at=6),
        make.step(2, {"loss": 1.0}, at=8),
        make.step(2, {"kl": 1.0}, at=9),
        make.closed(1, at=9, **LOST),
        begun(2, at=20, step=1),
    )["attempts"]

    assert first["cost"]["split"] == split(waiting=2.0, preparing=3.0, useful=1.0, repeated=3.0)
    assert first["superseded"] == {"fromStep": 2, "toStep": 2, "steps": 1}


@pytest.mark.parametrize("devices", [1, 4])
def test_an_attempt_that_never_trained_only_waited_prepared_and_idled(devices: int) -> None:
    """S44: and that costs, on every device that it held."""
    (found,) = splits(
        make.submitted(at=0, engine={"command": ["train"]}, execution={"devices": devices}),
        make.opened(at=10, devices=[f"cuda:{n}" for n in range(devices)]),
        make.phase("QUEUED", at=10),
        make.started(at=14),
        make.phase("PREPARING", at=14),
        make.stage("reading rows", at=17),
        make.closed(at=60, last_sign=22, **LOST),
    )

    assert found == split(waiting=4.0 * devices, preparing=3.0 * devices, idle=5.0 * devices)


def test_an_attempt_that_is_cancelled_in_the_queue_only_waited() -> None:
    (found,) = splits(
        make.submitted(at=0),
        make.opened(at=1),
        make.phase("QUEUED", at=1),
        make.cancel_requested(at=8),
        make.phase("CANCELLING", at=8),
        make.closed(at=9, end_class="stopped", outcome="cancelled"),
        make.cancelled(at=9),
    )

    assert found == split(waiting=7.0, idle=1.0)


def test_an_attempt_that_never_showed_a_sign_of_life_cost_nothing() -> None:
    """C44: it was claimed, and nothing is known of it."""
    (found,) = splits(
        make.submitted(at=0),
        make.opened(at=1),
        make.phase("QUEUED", at=1),
        make.closed(at=60, last_sign=1, **LOST),
    )

    assert found == NOTHING


@pytest.mark.parametrize(
    ("end", "is_written", "useful", "repeated"),
    [
        ({"end_class": "completed", "outcome": "completed"}, False, 12.0, 0.0),
        (PAUSED, True, 12.0, 0.0),
        (PAUSED, False, 10.0, 2.0),
        (LOST, True, 10.0, 2.0),
        ({"end_class": "stopped", "outcome": "cancelled"}, True, 10.0, 2.0),
    ],
    ids=["completed", "paused, saved", "paused, not saved", "lost", "cancelled"],
)
def test_what_came_after_the_last_update_is_useful_if_nothing_of_it_has_to_be_done_again(
    end: dict[str, Any], is_written: bool, useful: float, repeated: float
) -> None:
    """S61: a model that is saved, a snapshot that is gone on from."""
    (found,) = splits(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 10, at=5),
        written(10, at=16) if is_written else [],
        make.stage("saving", at=17),
        make.closed(1, at=20, **end),
    )

    assert found == split(waiting=2.0, preparing=3.0, useful=useful, repeated=repeated, idle=3.0)


def test_what_a_pause_saved_is_repeated_when_the_run_goes_back_further() -> None:
    """S61: the snapshot of the pause was damaged, so the run goes on from the one before."""
    history = [
        make.submitted(at=0),
        *begun(1, at=0),
        *updates(1, 10, at=5),
        *written(10, at=17),
        make.closed(1, at=17, **PAUSED),
        make.phase("PAUSED", at=17),
    ]

    (there, _), (back, _) = (
        splits(*history, begun(2, at=30, step=10), make.closed(2, at=36, **LOST)),
        splits(*history, begun(2, at=30, step=5), make.closed(2, at=36, **LOST)),
    )

    assert there == split(waiting=2.0, preparing=3.0, useful=12.0)
    assert back == split(waiting=2.0, preparing=3.0, useful=5.0, repeated=7.0)


def test_a_save_that_a_trainer_took_back_by_itself_keeps_nothing() -> None:
    """S61: update 10 was saved, taken back, and made again without a save."""
    (found,) = splits(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 10, at=5),
        written(10, at=15),
        make.restored(9, attempt=1, at=15),
        updates(10, 10, at=15),
        make.stage("saving", at=18),
        make.closed(1, at=18, **PAUSED),
    )

    assert found == split(waiting=2.0, preparing=3.0, useful=10.0, repeated=1.0 + 2.0)


def test_a_line_is_a_sign_of_life_whatever_the_one_who_closed_the_attempt_knew() -> None:
    """U4: devices were held for as long as the attempt was heard of."""
    (found,) = splits(
        make.submitted(at=0),
        begun(1, at=0),
        updates(1, 10, at=5),
        make.closed(1, at=40, last_sign=11, **LOST),
    )

    assert found == split(waiting=2.0, preparing=3.0, useful=10.0)


def test_looking_after_files_is_no_sign_of_life() -> None:
    """U4: a dead run does not grow older because its snapshots are committed, pinned and swept."""
    history = [
        make.submitted(at=0),
        *begun(1, at=0),
        *updates(1, 10, at=5),
        *written(10, at=16),
        *written(10, at=16),
    ]
    files = [
        make.committed("10", 10, at=400),
        make.snapshot_rejected(10, "a file is missing", at=410),
        make.pinned("10", at=500),
        make.unpinned("10", at=600),
        make.damaged("10", at=700),
        make.swept("10", at=800),
        make.snapshots_superseded(5, at=900),
    ]

    before, after = record(*history), record(*history, *files)

    assert after["timing"] == before["timing"]
    assert after["cost"] == before["cost"]
    assert after["attempts"][0]["lastSignAt"] == "2026-12-01T08:00:16.000Z"
