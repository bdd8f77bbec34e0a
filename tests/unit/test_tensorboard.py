"""Event files of a run: what TensorBoard's own reader finds in them, by value."""

import math
from pathlib import Path

import pytest
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS, STATUS_UNKNOWN

from projections.tensorboard import Curves, fold, records
from tests import event_files, make
from tests.event_files import curves, hyperparameters, reader, status, written

CHILD = "00000000000000bb"


def test_a_step_is_a_point_of_each_curve_under_the_engines_own_name(tmp_path: Path) -> None:
    """S121: reward terms have curves of their own, and so has each data set that is validated."""
    history = make.recorded(
        make.training(),
        make.step(1, {"loss": 0.5, "completions/mean_length": 8.0}, step_seconds=0.25),
        make.step(2, {"loss": 0.25}, reward_terms={"accuracy": 0.75, "format": 1.0}),
        make.validation(2, {"eval_loss": 0.125}),
        make.validation(2, {"eval_loss": 0.5, "eval_runtime": 2.0}, dataset="held out"),
    )

    assert curves(written(tmp_path, history)) == {
        "train/loss": [(1, 0.5), (2, 0.25)],
        "train/completions/mean_length": [(1, 8.0)],
        "train/step_seconds": [(1, 0.25)],
        "rewardTerms/accuracy": [(2, 0.75)],
        "rewardTerms/format": [(2, 1.0)],
        "eval/loss": [(2, 0.125)],
        "eval/held out/loss": [(2, 0.5)],
        "eval/held out/runtime": [(2, 2.0)],
    }


def test_a_name_that_is_in_its_group_already_is_not_put_there_twice(tmp_path: Path) -> None:
    """Imported curves are called train/loss as they come; no value takes the place of another."""
    history = make.recorded(
        make.training(),
        make.step(1, {"train/loss": 0.5, "train_loss": 0.25}),
        make.validation(1, {"eval/loss": 0.5, "eval_accuracy": 1.0, "accuracy": 0.0}),
    )

    assert curves(written(tmp_path, history)) == {
        "train/loss": [(1, 0.5)],
        "train/train_loss": [(1, 0.25)],
        "eval/loss": [(1, 0.5)],
        "eval/eval_accuracy": [(1, 1.0)],
        "eval/accuracy": [(1, 0.0)],
    }


def test_what_is_not_finite_stays_what_it_is(tmp_path: Path) -> None:
    """U3; the files hold 32 bits of a number, so one beyond them is infinite there."""
    odd = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1e300, "e": 0.1}

    found = curves(written(tmp_path, make.recorded(make.training(), make.step(1, odd))))

    values = {tag.removeprefix("train/"): points[0][1] for tag, points in found.items()}
    assert math.isnan(values.pop("a"))
    assert values == {"b": math.inf, "c": -math.inf, "d": math.inf, "e": pytest.approx(0.1)}


def test_a_point_has_the_time_of_its_event(tmp_path: Path) -> None:
    history = make.recorded(make.training(), make.step(1, at=100.5), make.step(2, at=101.25))

    points = reader(written(tmp_path, history)).Scalars("train/loss")

    began = make.START.timestamp()
    assert [each.wall_time - began for each in points] == [100.5, 101.25]


def restored_run() -> list[make.Made]:
    """Steps 1 to 5, of which an attempt from step 3 takes the last two back."""
    return [
        make.training(),
        make.steps(5),
        make.validation(2, {"eval_loss": 0.5}),
        make.validation(4, {"eval_loss": 0.25}),
        make.step(5, {}, reward_terms={"accuracy": 1.0}),
        make.retried(2, step=3),
    ]


def test_a_reader_forgets_what_a_restore_took_back(tmp_path: Path) -> None:
    """D5, S86: of every curve, and as soon as it happens, also where nothing comes in its place."""
    before = make.recorded(restored_run())
    after = make.recorded(restored_run(), make.step(4, {"loss": 8.0}, attempt=2))

    assert curves(written(tmp_path / "before", before)) == {
        "train/loss": [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))],
        "eval/loss": [(2, 0.5)],
        "rewardTerms/accuracy": [],
    }
    assert curves(written(tmp_path / "after", after))["train/loss"][2:] == [
        (3, pytest.approx(1 / 3)),
        (4, 8.0),
    ]


def test_a_run_that_begins_again_from_the_start_has_the_new_line_alone(tmp_path: Path) -> None:
    """D5: restored to step 0."""
    history = make.recorded(
        make.training(), make.steps(3), make.retried(2, step=0), make.step(1, {"loss": 8.0}, 2)
    )

    assert curves(written(tmp_path, history)) == {"train/loss": [(1, 8.0)]}


def test_a_trainer_that_goes_back_by_itself_takes_its_steps_back(tmp_path: Path) -> None:
    """D5: within one attempt, and twice."""
    history = make.recorded(
        make.training(),
        make.steps(6),
        make.restored(4, attempt=1),
        make.steps(5, first=5),
        make.restored(2, attempt=1),
        make.step(3, {"loss": 8.0}),
    )

    assert curves(written(tmp_path, history)) == {"train/loss": [(1, 1.0), (2, 0.5), (3, 8.0)]}


def test_every_curve_is_where_the_engine_counts_it(tmp_path: Path) -> None:
    """S124: in a branch of training state the engine goes on, and the run counts from zero."""
    source = make.origin("20", 20, restore="trainingState")
    history = make.recorded(
        make.training(CHILD, origin=source),
        *[make.step(n, {"loss": 1 / n, "engine_step": 20 + n}, run=CHILD) for n in (1, 2, 3, 4)],
        make.step(4, {"train_loss": 0.5}, run=CHILD),
        make.validation(4, {"eval_loss": 0.5}, run=CHILD),
        make.retried(2, step=2, run=CHILD),
        make.step(3, {"loss": 8.0, "engine_step": 23}, attempt=2, run=CHILD),
        make.validation(3, {"eval_loss": 4.0}, attempt=2, run=CHILD),
    )

    assert curves(written(tmp_path, history, run=CHILD)) == {
        "train/loss": [(21, 1.0), (22, 0.5), (23, 8.0)],
        "train/train_loss": [],
        "eval/loss": [(23, 4.0)],
    }


@pytest.mark.parametrize("counted", [-1.0, 2.5, math.nan, math.inf, 1e300])
def test_what_is_no_count_is_no_place(tmp_path: Path, counted: float) -> None:
    history = make.recorded(make.training(), make.step(7, {"loss": 0.5, "engine_step": counted}))

    assert curves(written(tmp_path, history)) == {"train/loss": [(7, 0.5)]}


def test_files_that_are_asked_for_bit_by_bit_say_the_same(tmp_path: Path) -> None:
    """S121: a reader goes on from where it was, whatever lies between."""
    history = make.recorded(restored_run(), make.steps(6, first=4, attempt=2), make.completed())
    at_once = written(tmp_path / "once", history)

    for stop in range(1, history[-1].position):
        folder = written(tmp_path / str(stop), history, stops=[stop])
        assert curves(folder) == curves(at_once)
        assert hyperparameters(folder) == hyperparameters(at_once)
    each = written(tmp_path / "each", history, stops=range(1, history[-1].position))
    assert curves(each) == curves(at_once)
    assert status(each) == STATUS_SUCCESS


def test_a_place_that_nobody_remembers_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of the server, or too many readers."""
    monkeypatch.setattr("projections.tensorboard.curves.REMEMBERED", 0)
    history = make.recorded(restored_run(), make.steps(6, first=4, attempt=2))

    folder = written(tmp_path / "each", history, stops=range(1, history[-1].position))

    assert curves(folder) == curves(written(tmp_path / "once", history))


def test_a_remembered_place_reads_no_event_twice() -> None:
    history = event_files.source_of(make.recorded(restored_run()))
    made, end = Curves(history), history.position()
    list(made.pages(make.RUN, attempt=None, after=0, upto=end))
    new = history.add(make.steps(6, first=4, attempt=2))
    asked: list[int] = []
    reads = history.read_run
    history.read_run = lambda run, after, limit, upto=None: (  # type: ignore[method-assign]
        asked.append(after) or reads(run, after, limit, upto)  # type: ignore[func-returns-value]
    )

    (page,) = made.pages(make.RUN, attempt=None, after=end, upto=new[-1].position)

    assert asked == [end]
    assert [each.step for each in page.summaries if isinstance(each, fold.Scalars)] == [4, 5, 6]


def test_nothing_new_is_no_file() -> None:
    history = make.recorded(make.training(), make.steps(2), make.saved(2))
    made, end = Curves(event_files.source_of(history)), history[-1].position

    assert not list(made.pages(make.RUN, attempt=None, after=end - 3, upto=end))


def test_event_files_one_after_the_other_are_an_event_file(tmp_path: Path) -> None:
    """So a follower appends to one file, however long the run goes on."""
    history = make.recorded(restored_run(), make.steps(6, first=4, attempt=2))
    parts = written(tmp_path / "parts", history, stops=range(1, history[-1].position))
    whole = tmp_path / "whole"
    whole.mkdir()

    files = sorted(parts.iterdir())
    (whole / "events.out.tfevents.all").write_bytes(b"".join(map(Path.read_bytes, files)))

    assert len(files) > 10
    assert curves(whole) == curves(parts)


def test_the_same_events_make_the_same_bytes() -> None:
    """Rule 14: a projection is a fold."""
    history = make.recorded(restored_run())

    def made() -> list[bytes]:
        pages = Curves(event_files.source_of(history)).pages(
            make.RUN, attempt=None, after=0, upto=history[-1].position
        )
        return [records.event_file(page.summaries) for page in pages]

    assert made() == made()


# -- one attempt -----------------------------------------------------------------------------------


def test_an_attempt_has_all_that_it_reported_and_nothing_else(tmp_path: Path) -> None:
    history = make.recorded(
        restored_run(), make.hparams({"rank": 8}, attempt=2), make.steps(6, first=4, attempt=2)
    )

    first = curves(written(tmp_path / "1", history, attempt=1))
    second = curves(written(tmp_path / "2", history, attempt=2))

    assert [step for step, _ in first["train/loss"]] == [1, 2, 3, 4, 5]
    assert first["eval/loss"] == [(2, 0.5), (4, 0.25)]
    assert [step for step, _ in second["train/loss"]] == [4, 5, 6]
    assert second.keys() == {"train/loss"}


def test_an_attempt_ends_when_it_is_closed(tmp_path: Path) -> None:
    history = make.recorded(restored_run(), make.steps(6, first=4, attempt=2))
    ended = make.recorded(make.training(), make.closed(1), make.completed())

    assert status(written(tmp_path / "1", history, attempt=1)) == STATUS_FAILURE
    assert status(written(tmp_path / "2", history, attempt=2)) is None
    assert status(written(tmp_path / "3", ended, attempt=1)) == STATUS_SUCCESS


# -- hyperparameters -------------------------------------------------------------------------------


def test_the_hyperparameters_are_those_that_the_worker_resolved(tmp_path: Path) -> None:
    """S122: every default included, in words that the dashboard can show."""
    values = {
        "learningRate": 2e-4,
        "seed": 7,
        "packing": True,
        "optimizer": "adamw",
        "lora": {"rank": 16, "targetModules": ["q_proj", "v_proj"], "bias": None},
        "warmup": math.inf,
        "tokens": 10**400,
    }
    history = make.recorded(
        make.submitted(name="first try"), make.opened(), make.hparams(values), make.began()
    )

    assert hyperparameters(written(tmp_path, history)) == {
        "name": "first try",
        "method": "SFT",
        "baseModel": "tiny",
        "dataset": "rows.jsonl",
        "learningRate": 2e-4,
        "seed": 7.0,
        "packing": True,
        "optimizer": "adamw",
        "lora.rank": 16.0,
        "lora.targetModules": '["q_proj", "v_proj"]',
        "warmup": "Infinity",
        "tokens": str(10**400),
    }


def test_an_engine_that_says_none_has_those_of_the_plan(tmp_path: Path) -> None:
    """S122: told with its first word on training, since a reader keeps the first that it finds."""
    waiting = make.recorded(make.submitted(config={"learningRate": 0.5}), make.opened())
    training = make.recorded(make.training(config={"learningRate": 0.5}), make.hparams({"a": 1}))

    found = hyperparameters(written(tmp_path / "training", training))

    with pytest.raises(KeyError):
        hyperparameters(written(tmp_path / "waiting", waiting))
    chosen = {"learningRate": 0.5, "schedule.kind": "cosine", "lora.rank": 16.0}
    assert found.items() >= chosen.items()
    assert not {"a", "maxSteps"} & found.keys()


def test_a_restore_does_not_take_the_hyperparameters_back(tmp_path: Path) -> None:
    history = make.recorded(make.training(), make.steps(3), make.retried(2, step=0))

    assert hyperparameters(written(tmp_path, history))["method"] == "SFT"


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (make.completed(), STATUS_SUCCESS),
        (make.failed(), STATUS_FAILURE),
        (make.cancelled(), STATUS_UNKNOWN),
    ],
)
def test_how_a_run_ended_is_shown_also_where_none_of_it_was_trained(
    tmp_path: Path, end: make.Made, shown: int
) -> None:
    history = make.recorded(make.submitted(), end)

    folder = written(tmp_path, history)

    assert status(folder) == shown
    assert hyperparameters(folder)["baseModel"] == "tiny"
