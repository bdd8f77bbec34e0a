"""Histories of other people's runs, as they are published, go in and come out with their numbers.

The files are not part of this repository; without them, tests of our own files of the same shapes
remain (``test_imports.py``).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import histories
from tests.histories import Importer

DATA = Path(__file__).parents[3] / "shared" / "cases" / "data"
MISTRAL = DATA / "run-mistral-translator"
NSLLM = DATA / "run-nsllm"
QWEN = DATA / "run-medical-qwen"

SHA256 = {"trainer_state.json": "51d67515e4ae44b5", "trainer_log.jsonl": "922f6bc11a922d2f"}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the published files are not here")


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Importer]:
    with histories.importer(tmp_path_factory.mktemp("home")) as server:
        yield server


def test_867_entries_of_866_steps_are_866_rows_of_which_784_were_clipped(
    product: Importer,
) -> None:
    """C28, C34: the last step carries its loss and that of the whole training."""
    answer = product.run(
        "trainer-state", MISTRAL / "trainer_state.final.json", "--max-grad-norm", "1"
    )

    steps = product.steps(answer)
    assert (answer["steps"], answer["replaced"], list(steps)[-1]) == (866, 0, 8660)
    assert (steps[8660]["loss"], steps[8660]["train_loss"]) == (0.1333, 0.2891847992741759)
    assert steps[10]["grad_norm"] == 11.009225845336914
    assert steps[10]["grad_clip_factor"] == 0.09083290814890146
    assert sum(row["grad_clip_factor"] < 1 for row in steps.values()) == 784
    record = product.record(answer)
    assert record["results"]["trainingLoss"]["last"] == 0.1333
    assert record["timing"]["durationMillis"] == 20_387_713


def test_a_checkpoint_has_the_history_until_then_and_is_no_whole_run(product: Importer) -> None:
    """C34, C38: nothing is said of what came after it, whatever lies beside it."""
    answer = product.run("trainer-state", MISTRAL / "trainer_state.checkpoint-500.json")

    record = product.record(answer)
    assert (answer["steps"], answer["beside"], record["observedStep"]) == (50, None, 500)
    assert (record["phase"], record["progress"]["total"]) == ("FAILED", 8660)
    assert record["failure"]["reason"] == "the imported history ends at step 500 of 8,660"


@pytest.mark.parametrize("file", ["trainer_state.json", "trainer_log.jsonl"])
def test_steps_that_nobody_logged_are_observed_all_the_same(product: Importer, file: str) -> None:
    """C38, C42: 2,178 steps although the last row is of 2,175; 857,595 s are days and hours."""
    answer = product.run(file.partition(".")[0].replace("_", "-"), NSLLM / file)

    record = product.record(answer)
    assert record["imported"]["sha256"].startswith(SHA256[file])
    with_loss = [step for step, row in product.steps(answer).items() if "loss" in row]
    assert (len(with_loss), with_loss[-1], record["observedStep"]) == (435, 2175, 2178)
    assert record["latest"]["measured"]["train_loss"] == 1.9950996404180186
    assert record["results"]["trainingLoss"]["mean"] == pytest.approx(1.9951478, abs=5e-8)
    assert record["timing"]["durationMillis"] == 857_595_099
    assert record["timing"]["split"]["trainingMillis"] == 857_595_099
    shown = product.call("runs", "get", answer["runId"]).stdout
    assert "  Duration          9 days 22:13:15\n" in shown
    assert "over 435 steps" in shown


def test_the_final_validation_is_the_result_and_the_best_one_is_in_the_series(
    product: Importer,
) -> None:
    """C38: 13 validations in the log, and that of the end in all_results.json beside it."""
    answer = product.run("trainer-log", QWEN / "trainer_log.jsonl")

    rows = product.metrics(answer)["validations"]
    losses = {row["step"]: row["measured"]["eval_loss"] for row in rows}
    final = product.record(answer)["results"]["validationLoss"]
    assert (answer["steps"], answer["beside"]["file"]) == (675, "all_results.json")
    assert (len(losses), min(losses, key=losses.__getitem__)) == (14, 4500)
    assert losses[4500] == pytest.approx(1.5517805, abs=5e-8)
    assert (final["step"], final["value"]) == (6750, 1.5777634382247925)
    assert product.record(answer)["timing"]["durationMillis"] == 24_486_754


def test_six_validation_sets_stay_apart_from_step_0_on(product: Importer) -> None:
    """C34: 216 entries on 31 distinct steps."""
    answer = product.run("trainer-state", DATA / "trainer-state-multi-eval" / "trainer_state.json")

    told = product.metrics(answer)
    sets = {row["dataset"] for row in told["validations"]}
    steps = {row["step"] for row in (*told["steps"], *told["validations"])}
    assert (answer["steps"], answer["validations"]) == (30, 186)
    assert (sets, len(steps), min(steps), max(steps)) == (
        {"g0", "g1", "g2", "g3", "g4", "g5"}, 31, 0, 12_030,
    )  # fmt: skip
    first = next(row for row in told["validations"] if row["dataset"] == "g1")
    assert (first["step"], first["measured"]["eval_g1_loss"]) == (0, 8.220163345336914)
    assert len(product.record(answer)["results"]["validationLosses"]) == 6


def test_a_table_comes_out_with_its_2270_rows_and_the_names_of_its_columns(
    product: Importer,
) -> None:
    """C40: names with slashes, colons and spaces are what they were."""
    answer = product.run("csv", DATA / "trackio-csv" / "logs.csv")

    steps = product.steps(answer)
    name = "17/04/2025_22:06:37_user-48n-1704-part1_tp_group_0 - lm_loss"
    assert (answer["steps"], len(steps), min(steps)) == (2270, 2270, 4)
    assert steps[42_509] == dict.fromkeys([name, f"{name}__MIN", f"{name}__MAX"], 2.329497814178467)
    assert product.record(answer)["observedStep"] == 42_509


def test_imported_runs_are_compared_step_by_step(product: Importer) -> None:
    """S94, C34: two checkpoints of one training have the same losses."""
    early, late = (
        product.run("trainer-state", MISTRAL / f"trainer_state.checkpoint-{step}.json")["runId"]
        for step in (500, 8500)
    )

    compared = product.api.get(f"/v1/runs/{early}/compare", baseline=late)

    assert compared["steps"]["compared"] == 50
    assert compared["steps"]["missingInRun"] == {"count": 800, "first": 510, "last": 8500}
    assert {each["difference"] for each in compared["windows"]} == {0.0}
    assert compared["reported"] is None
