"""Run documents: what the record of a run says after each kind of event."""

import math
from datetime import datetime
from typing import Any

import pytest

from ledger.store.sqlite import Database
from projections.documents import Documents, reading, store
from projections.errors import ProjectionError
from tests import make

OTHER = "00000000000000bb"


def record(*made: make.Made, run: str = make.RUN) -> dict[str, Any]:
    """The record of a run after these events."""
    found = opened(make.History(*made)).get(run)
    assert found is not None
    return found


def opened(history: make.History) -> Documents:
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    return documents


def seconds(text: str) -> float:
    return (datetime.fromisoformat(text) - make.START).total_seconds()


# -- time ------------------------------------------------------------------------------------------


def test_phases_are_visits_that_add_up_to_the_duration() -> None:
    """S24, C42: the sum over phases is end - start, in whole milliseconds; a second visit adds."""
    found = record(
        make.submitted(at=0),
        make.phase("WAITING", at=0.0014),
        make.phase("QUEUED", at=1.0029),
        make.phase("WAITING", at=2.0001),
        make.phase("TRAINING", at=10.9999),
        make.completed(at=12.34567),
    )["timing"]

    assert found["phaseMillis"] == {
        "SUBMITTED": 1,
        "WAITING": 1001 + 8999,
        "QUEUED": 998,
        "TRAINING": 1346,
    }
    assert sum(found["phaseMillis"].values()) == found["durationMillis"] == 12345
    assert found["startedAt"] == "2026-12-01T08:00:00.000Z"
    assert found["endedAt"] == "2026-12-01T08:00:12.345Z"
    assert [visit["phase"] for visit in found["visits"]] == [
        "SUBMITTED",
        "WAITING",
        "QUEUED",
        "WAITING",
        "TRAINING",
    ]
    assert found["visits"][-1]["leftAt"] == found["endedAt"]


def test_the_split_sets_waiting_apart_from_training() -> None:
    """S23: waiting, queued, preparing, training and other sum to the whole."""
    found = record(
        make.submitted(at=0),
        make.phase("WAITING", at=1),
        make.phase("QUEUED", at=3),
        make.phase("PREPARING", at=6),
        make.phase("TRAINING", at=10),
        make.phase("CANCELLING", at=15),
        make.cancelled(at=16),
    )["timing"]

    assert found["split"] == {
        "waitingMillis": 2000,
        "queuedMillis": 3000,
        "preparingMillis": 4000,
        "trainingMillis": 6000,
        "otherMillis": 1000,
    }
    assert found["durationMillis"] == 16000


def test_cancelling_a_run_that_never_trained_is_no_training() -> None:
    """S23: only a run that was training goes on training until it has stopped."""
    found = record(
        make.submitted(at=0),
        make.phase("QUEUED", at=1),
        make.phase("CANCELLING", at=2),
        make.cancelled(at=5),
    )["timing"]

    assert found["split"]["trainingMillis"] == 0
    assert found["split"]["otherMillis"] == 4000


def test_the_duration_of_a_silent_run_ends_at_its_last_sign_of_life() -> None:
    """U4: an open run is as old as its newest event, never as old as the clock says."""
    found = record(
        make.submitted(at=0),
        make.phase("TRAINING", at=2),
        make.opened(at=2),
        make.step(1, at=9),
    )["timing"]

    assert found["durationMillis"] == 9000
    assert found["phaseMillis"] == {"SUBMITTED": 2000, "TRAINING": 7000}
    assert found["visits"][-1]["leftAt"] is None
    assert found["visits"][-1]["millis"] == 7000
    assert seconds(found["lastSignAt"]) == 9
    assert found["endedAt"] is None


def test_a_clock_that_runs_backwards_makes_no_negative_time() -> None:
    """S24: a moment before the one already reached counts as that one."""
    found = record(
        make.submitted(at=10),
        make.phase("WAITING", at=4),
        make.phase("TRAINING", at=11),
        make.failed(at=10.5),
    )["timing"]

    assert found["phaseMillis"] == {"SUBMITTED": 0, "WAITING": 1000, "TRAINING": 0}
    assert found["durationMillis"] == 1000


def test_the_same_phase_said_twice_is_one_visit_with_the_newer_reason() -> None:
    found = record(
        make.submitted(at=0),
        make.phase("WAITING", at=1, waiting_for="all devices are taken"),
        make.phase("WAITING", at=3, waiting_for="one device is free, two are needed"),
    )

    assert [visit["phase"] for visit in found["timing"]["visits"]] == ["SUBMITTED", "WAITING"]
    assert found["waitingFor"] == "one device is free, two are needed"


# -- series ----------------------------------------------------------------------------------------


def test_training_loss_is_first_last_and_mean_of_the_updates() -> None:
    """S14."""
    found = record(
        make.training(), make.step(1, loss=4.0), make.step(2, loss=2.0), make.step(3, loss=1.5)
    )

    assert found["results"]["trainingLoss"] == {
        "first": 4.0,
        "last": 1.5,
        "mean": 2.5,
        "steps": 3,
        "notFinite": 0,
    }
    assert found["progress"]["lastLoss"] == 1.5
    assert found["latest"] == {"step": 3, "measured": {"loss": 1.5}}


def test_losses_that_are_not_finite_are_counted_apart_and_never_averaged() -> None:
    """U11, C35: aggregates state how many were not finite; absent is no value at all."""
    found = record(
        make.training(),
        make.step(1, loss=2.0),
        make.step(2, loss=math.nan),
        make.step(3, loss=1.0, grad_norm=math.inf),
        make.step(4, grad_norm=-math.inf),
        make.step(5, loss=math.nan),
    )

    assert found["results"]["trainingLoss"] == {
        "first": 2.0,
        "last": "NaN",
        "mean": 1.5,
        "steps": 2,
        "notFinite": 2,
    }
    assert found["progress"]["lastLoss"] == "NaN"
    assert found["observedStep"] == 5


def test_a_run_of_nan_has_no_mean() -> None:
    """U11: no number is made up."""
    found = record(make.training(), make.step(1, loss=math.nan))

    assert found["results"]["trainingLoss"]["mean"] is None
    assert found["results"]["trainingLoss"]["notFinite"] == 1


def test_a_restore_takes_back_what_came_later() -> None:
    """S14, S26, S86, D7: loss, latest and observed step are those of the current line."""
    history = [
        make.training(),
        [make.step(n, loss=100.0 if n > 40 else 2.0) for n in range(1, 61)],
        make.validation(40, eval_loss=1.25),
        make.validation(60, eval_loss=9.0),
        make.retried(2, 40),
    ]

    found = record(*history)

    assert found["observedStep"] == 40
    assert found["latest"] == {"step": 40, "measured": {"loss": 2.0}}
    assert found["results"]["trainingLoss"] == {
        "first": 2.0,
        "last": 2.0,
        "mean": 2.0,
        "steps": 40,
        "notFinite": 0,
    }
    assert found["results"]["validationLoss"]["value"] == 1.25
    assert found["results"]["validationLoss"]["step"] == 40


def test_after_a_restore_to_40_and_5_more_the_observed_step_is_45() -> None:
    """S26, D7: what the first attempt reached stays with the attempt."""
    found = record(make.training(), make.steps(60), make.retried(2, 40), make.steps(45, 41, 2))

    assert found["observedStep"] == 45
    first, second = found["attempts"]
    assert (first["firstStep"], first["lastStep"], first["highestStep"]) == (1, 60, 60)
    assert (second["firstStep"], second["lastStep"], second["highestStep"]) == (41, 45, 45)


def test_nested_restores_leave_the_rows_that_no_later_one_took_back() -> None:
    """C32, nested: 125, back to 120, on to 123, back to 100, on to 110."""
    loss = record(
        make.training(),
        [make.step(n, loss=1.0) for n in range(1, 126)],
        make.restored(120, attempt=1),
        [make.step(n, loss=5.0) for n in range(121, 124)],
        make.restored(100, attempt=1),
        [make.step(n, loss=3.0) for n in range(101, 111)],
    )["results"]["trainingLoss"]

    assert loss["steps"] == 110
    assert loss["last"] == 3.0
    assert loss["mean"] == (100 * 1.0 + 10 * 3.0) / 110


def test_reports_of_one_update_are_merged() -> None:
    """C34: loss and train_loss of step 8,660 stand side by side, and only one is the loss."""
    found = record(
        make.training(),
        make.step(8655, loss=0.2),
        make.step(8660, {"loss": 0.1333, "grad_norm": 0.5}),
        make.step(8660, {"train_loss": 0.28918, "train_runtime": 4000.0}),
    )

    assert found["latest"] == {
        "step": 8660,
        "measured": {
            "loss": 0.1333,
            "grad_norm": 0.5,
            "train_loss": 0.28918,
            "train_runtime": 4000.0,
        },
    }
    assert found["results"]["trainingLoss"]["steps"] == 2
    assert found["results"]["trainingLoss"]["last"] == 0.1333


def test_the_observed_step_counts_updates_that_nobody_logged() -> None:
    """C38: the last row is 2,175, the last update 2,178."""
    found = record(
        make.training(), make.began(2178), make.step(2175, loss=1.9787), make.step(2178, {})
    )

    assert found["observedStep"] == 2178
    assert found["latest"]["step"] == 2175
    assert found["progress"] == {
        "completed": 2178,
        "total": 2178,
        "share": 1.0,
        "lastLoss": 1.9787,
    }


def test_the_validation_loss_is_the_last_one_and_not_the_best() -> None:
    """S13, C38: with its step and its perplexity."""
    found = record(
        make.training(),
        make.validation(4500, eval_loss=1.5517805),
        make.validation(6500, eval_loss=1.5777634, eval_runtime=3.0),
    )

    assert found["results"]["validationLoss"] == {
        "value": 1.5777634,
        "step": 6500,
        "dataset": None,
        "perplexity": math.exp(1.5777634),
    }


def test_validation_sets_stay_apart() -> None:
    """C34: six sets at step 0, named by label or only by their fields."""
    found = record(
        make.training(),
        make.validation(0, {"eval_g0_loss": 5.74, "eval_g0_runtime": 5.7}),
        make.validation(0, {"eval_g1_loss": 8.22}),
        make.validation(0, {"eval_loss": 3.5}, dataset="held out"),
        make.validation(401, {"eval_g0_loss": 1.11}),
    )["results"]

    losses = {name: (row["value"], row["step"]) for name, row in found["validationLosses"].items()}
    assert losses == {"g0": (1.11, 401), "g1": (8.22, 0), "held out": (3.5, 0)}
    assert found["validationLoss"]["value"] == 1.11
    assert found["validationLoss"]["dataset"] == "g0"


@pytest.mark.parametrize(
    ("loss", "value", "perplexity"),
    [
        (1000.0, 1000.0, None),
        (math.nan, "NaN", "NaN"),
        (math.inf, "Infinity", "Infinity"),
        (-math.inf, "-Infinity", 0.0),
    ],
)
def test_a_perplexity_beyond_numbers_is_null(loss: float, value: Any, perplexity: Any) -> None:
    """U11: never an error, never invalid JSON."""
    found = record(make.training(), make.validation(1, loss=loss))["results"]["validationLoss"]

    assert (found["value"], found["perplexity"]) == (value, perplexity)


def test_a_validation_without_a_loss_changes_no_loss() -> None:
    found = record(
        make.training(),
        make.validation(1, {"accuracy": 0.5}),
        make.validation(1, {"a_loss": 1.0, "b_loss": 2.0}),
    )["results"]

    assert found["validationLoss"] is None
    assert found["validationLosses"] == {}


# -- state and settings ----------------------------------------------------------------------------


def test_progress_is_the_share_of_the_planned_updates() -> None:
    """S9."""
    found = record(make.training(config={"maxSteps": 120}), make.steps(30))["progress"]

    assert found == {"completed": 30, "total": 120, "share": 0.25, "lastLoss": 1 / 30}


def test_what_the_worker_announces_replaces_the_planned_total() -> None:
    found = record(make.training(config={"maxSteps": 120}), make.began(60), make.steps(30))

    assert (found["progress"]["total"], found["progress"]["share"]) == (60, 0.5)


def test_a_completed_run_is_whole_and_never_stuck_just_below() -> None:
    """S9: 100 %, whatever the last report said."""
    found = record(make.training(), make.began(120), make.steps(119), make.completed())["progress"]

    assert (found["completed"], found["share"]) == (119, 1.0)


def test_the_stage_ends_with_its_phase() -> None:
    begun = [make.submitted(), make.opened(), make.phase("PREPARING"), make.stage("rows", 5, 10)]

    assert record(*begun)["stage"] == {"name": "rows", "completed": 5, "total": 10}
    assert record(*begun, make.began())["stage"] is None
    assert record(*begun, make.phase("TRAINING"))["stage"] is None


def test_a_failure_has_a_reason_and_an_advice_and_success_has_none() -> None:
    """S11."""
    assert record(make.training(), make.completed())["failure"] is None
    assert record(make.training(), make.failed())["failure"] == {
        "code": "deviceMemory",
        "class": "resource",
        "reason": "the device ran out of memory",
        "advice": "use a smaller micro-batch",
    }


def test_the_model_is_absent_until_it_is_registered() -> None:
    """S12."""
    assert record(make.training())["results"]["model"] is None
    assert record(make.training(), make.model(60))["results"]["model"] == {
        "path": "/out/model.safetensors",
        "sha256": "a" * 64,
        "step": 60,
        "sizeBytes": 1234,
    }


def test_peak_memory_is_the_highest_of_each_device() -> None:
    """S18."""
    found = record(
        make.training(), make.memory({"cuda:0": 700, "cuda:1": 5}), make.memory({"cuda:0": 600})
    )

    assert found["memory"] == {"peakBytes": {"cuda:0": 700, "cuda:1": 5}, "breakdown": None}


def test_rows_and_how_they_fit_are_told() -> None:
    found = record(
        make.training(),
        make.dataset(90, 10, identity="1" * 64, validation_identity="2" * 64),
        make.data_fit(rows=90, reached=7, lost_end=2, dropped=1, padding_share=0.25),
    )

    assert (found["datasetRows"], found["validationRows"]) == (90, 10)
    assert (found["datasetIdentity"], found["validationIdentity"]) == ("1" * 64, "2" * 64)
    assert found["dataFit"] == {
        "rows": 90,
        "reached": 7,
        "lostEnd": 2,
        "dropped": 1,
        "paddingShare": 0.25,
    }


def test_rejected_lines_are_counted_and_the_first_five_are_told() -> None:
    found = record(make.training(), [make.rejected(f"fault {n}") for n in range(7)])["attempts"][0]

    assert found["rejectedLines"] == 7
    assert found["rejections"] == [f"fault {n}" for n in range(5)]


def test_settings_are_the_plan_with_every_default_and_what_was_stated() -> None:
    found = record(make.training(project="triage", config={"maxSteps": 7}))

    settings = found["settings"]
    assert settings["configuration"]["maxSteps"] == 7
    assert settings["configuration"]["learningRate"] == 2.0e-4
    assert settings["run"]["project"] == "triage"
    assert settings["runtime"]["devices"] == 1
    assert settings["runtime"]["claimedDevices"] == ["cpu:0"]
    assert (settings["runtime"]["launcher"], settings["runtime"]["host"]) == ("local", "here")
    assert settings["hyperparameters"] is None
    assert settings["engineSettings"] is None
    assert found["stated"] == ["baseModel", "config.maxSteps", "dataset", "engine", "project"]


def test_settings_of_the_engine_survive_whatever_they_hold() -> None:
    """U11: numbers that JSON cannot say, and depth that JSON writers refuse."""
    deep: Any = "bottom"
    for _ in range(150):
        deep = [deep]
    values = {"nan": math.nan, "huge": 2**70, "deep": deep, "fine": {"lr": 0.1, "on": True}}
    engine = make.engine_config({"a": -math.inf}, {"a": 1})

    found = record(make.training(), make.hparams(values), engine)["settings"]

    assert found["hyperparameters"]["nan"] == "NaN"
    assert found["hyperparameters"]["huge"] == str(2**70)
    assert found["hyperparameters"]["fine"] == {"lr": 0.1, "on": True}
    assert found["engineSettings"] == {"requested": {"a": "-Infinity"}, "resolved": {"a": 1}}


def test_a_description_stays_as_it_was_written() -> None:
    """C40: emoji, quotes, new lines, ten thousand characters."""
    description = ("🦜 \"quoted\" and 'single'\n" * 1000)[:10_000]

    assert record(make.submitted(description=description))["description"] == description


# -- the store -------------------------------------------------------------------------------------


def test_a_batch_applied_twice_changes_nothing() -> None:
    history = make.History(make.training(), make.steps(20))
    documents = opened(history)
    before = documents.row(make.RUN)

    documents.apply(history.events)
    documents.apply(history.events[3:7])

    assert documents.row(make.RUN) == before
    assert documents.position() == history.position()


def test_a_batch_that_fails_leaves_rows_and_position_alone() -> None:
    history = make.History(make.training())
    documents = opened(history)
    before = documents.row(make.RUN)
    never_opened = make.step(1, attempt=7)

    with pytest.raises(ProjectionError, match="never opened its attempt 7"):
        documents.apply(history.add(make.steps(5), never_opened))

    assert documents.row(make.RUN) == before
    assert documents.position() == 8


def test_a_run_begins_with_its_submission() -> None:
    with pytest.raises(ProjectionError, match="begins with PhaseChanged"):
        record(make.phase("TRAINING"))


def test_a_second_writer_of_the_same_documents_is_refused() -> None:
    """Two that fold at the same time would otherwise both be right about half of it."""
    history = make.History(make.training(), make.steps(3))
    database = Database(":memory:")
    first, second = Documents(database, history), Documents(database, history)
    first.apply(history.events)

    with pytest.raises(ProjectionError, match="no longer at position 0"):
        second.apply(history.events)


def test_documents_remember_some_states_and_read_the_others_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "REMEMBERED", 2)
    runs = [f"{n:016x}" for n in range(5)]
    history = make.History([make.training(run) for run in runs])
    documents = Documents(Database(":memory:"), history)
    for each in history.events:
        documents.apply([each])

    documents.apply(history.add([make.step(1, run=run, loss=0.5) for run in runs]))

    assert [documents.row(run) for run in runs] == [opened(history).row(run) for run in runs]


def test_after_a_failure_the_same_documents_go_on_from_what_is_stored() -> None:
    history = make.History(make.training())
    documents = opened(history)
    bad = make.recorded(make.steps(5), make.step(1, attempt=7), after=history.events)
    with pytest.raises(ProjectionError):
        documents.apply(bad)

    documents.apply(history.add(make.steps(3)))

    assert documents.row(make.RUN) == opened(history).row(make.RUN)


def test_documents_go_on_where_another_process_left_them() -> None:
    history = make.History(make.training(), make.steps(10))
    database = Database(":memory:")
    Documents(database, history).apply(history.events[:12])

    again = Documents(database, history)

    assert again.position() == 12
    again.apply(history.events[12:])
    assert again.row(make.RUN) == opened(history).row(make.RUN)


def test_documents_of_another_version_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    history = make.History(make.training())
    database = Database(":memory:")
    Documents(database, history).apply(history.events)
    database.script("ALTER TABLE document DROP COLUMN state")  # it had other columns
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)

    again = Documents(database, history)

    assert again.position() == 0
    assert again.get(make.RUN) is None
    again.apply(history.events)
    assert again.get(make.RUN) == opened(history).get(make.RUN)


def test_an_unknown_run_has_no_record() -> None:
    assert opened(make.History()).get("feedfeedfeedfeed") is None


def test_ids_are_found_by_their_beginning() -> None:
    documents = opened(
        make.History(make.submitted("ab12"), make.submitted("ab34"), make.submitted("ff"))
    )

    assert documents.find("ab") == ["ab12", "ab34"]
    assert documents.find("ab", limit=1) == ["ab12"]
    assert documents.find("ab3") == ["ab34"]
    assert documents.find("%") == []


def test_lists_are_newest_first_and_go_on_where_a_page_ended() -> None:
    runs = [f"{n:016x}" for n in range(5)]
    documents = opened(make.History([make.submitted(run) for run in runs]))

    first, more = documents.list(limit=2)
    second, last = documents.list(limit=3, before=more)

    assert [row["runId"] for row in first] == [runs[4], runs[3]]
    assert [row["runId"] for row in second] == [runs[2], runs[1], runs[0]]
    assert last is None


def test_lists_can_be_of_a_project_and_of_phases() -> None:
    documents = opened(
        make.History(
            make.training(make.RUN, project="one"),
            make.submitted(OTHER, project="one"),
            make.completed(OTHER),
            make.submitted("cc", project="two"),
        )
    )

    def listed(**asked: Any) -> list[str]:
        return [row["runId"] for row in documents.list(**asked)[0]]

    assert listed(project="one") == [OTHER, make.RUN]
    assert listed(phases=["TRAINING", "COMPLETED"]) == [OTHER, make.RUN]
    assert listed(phases=reading.OPEN_PHASES) == ["cc", make.RUN]
    assert listed(phases=["COMPLETED"], project="two") == []
    assert listed(phases=[]) == []
    assert documents.open_runs() == [make.RUN, "cc"]


def test_a_summary_has_what_a_list_shows() -> None:
    documents = opened(make.History(make.training(), make.step(1, loss=0.5), make.completed()))

    ((summary,), _) = documents.list()

    assert summary["phase"] == "COMPLETED"
    assert summary["latest"] == {"step": 1, "measured": {"loss": 0.5}}
    assert summary["endedAt"] == "2026-12-01T08:00:09.000Z"
    assert summary["submittedAt"] == "2026-12-01T08:00:00.000Z"


def test_events_of_no_run_move_the_position_only() -> None:
    history = make.History(make.submission("token", make.RUN), make.submitted())

    documents = opened(history)

    assert documents.position() == 2
    assert documents.runs() == [make.RUN]


def test_an_event_of_an_unknown_kind_is_passed_over() -> None:
    """A newer version wrote it; what it says is not for this one to guess."""
    history = make.History(make.training(), make.unknown(), make.steps(3))

    found = opened(history).get(make.RUN)

    assert found is not None
    assert found["observedStep"] == 3
