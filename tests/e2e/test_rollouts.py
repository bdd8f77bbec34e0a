"""Rollouts of a real run, and of one whose trainer is killed between scoring and update."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import Product
from tests.trl_runs import tiny_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "grpo"


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    product = Product(tmp_path_factory.mktemp("rollouts") / "home")
    yield product
    product.close()


def test_every_rollout_of_every_update_is_kept(product: Product) -> None:
    """S125, S132: prompts x generations of each of three updates, in SQL as in the command."""
    run_id = product.start([{"training": 3}, {"steps": 3, "rollouts": 24}])
    product.wait_for_phase(run_id, "COMPLETED")

    newest = product.json("runs", "rollouts", run_id)
    first = product.json("runs", "rollouts", run_id, "--step", "1", "--worst", "2")
    query = "SELECT step, count(*) AS n FROM rollouts GROUP BY step ORDER BY step"
    counted = product.run("sql", query, "-o", "csv")

    assert (newest["step"], newest["count"], newest["steps"]) == (3, 24, [1, 2, 3])
    assert [each["place"] for each in newest["rollouts"]] == list(range(1, 25))
    assert first["rollouts"][0]["score"] <= first["rollouts"][1]["score"]
    assert counted == "step,n\n1,24\n2,24\n3,24\n"


def test_what_was_scored_before_the_trainer_was_killed_is_kept(product: Product) -> None:
    """S133: update 3 was never made; its rollouts say why the reward had fallen."""
    rollouts = [{"prompt": "2 * 3?", "completion": "6", "score": 0.5}]
    line = json.dumps({"kind": "rollouts", "step": 3, "rollouts": rollouts})
    script = [{"training": 5}, {"steps": 2, "rollouts": 4}, {"line": line}, {"crash": "SIGKILL"}]
    run_id = product.start(script, execution={"maxAttempts": 1})

    record = product.wait_for_phase(run_id, "FAILED")
    kept = product.json("runs", "rollouts", run_id)

    assert record["observedStep"] == 2
    assert (kept["step"], kept["count"], kept["steps"]) == (3, 1, [1, 2, 3])
    assert kept["rollouts"][0]["completion"] == "6"


def test_a_reinforcement_by_trl_tells_what_each_update_was_rewarded_for(product: Product) -> None:
    """S125: the example on the tiny model; 2 questions x 4 generations of each of three updates."""
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, str(EXAMPLE / "train.py")]
    run_id = product.start(
        [],
        engine={"command": command},
        method="GRPO",
        baseModel=str(tiny_model(product.home.parent / "tiny")),
        config={"maxSteps": 3, "sequencesPerUpdate": 8, "learningRate": 1e-3, "seed": 1},
    )

    record = product.wait_for_phase(run_id, "COMPLETED")
    steps = product.steps(run_id)

    assert (record["observedStep"], record["progress"]["total"]) == (3, 3)
    for number, step in enumerate(steps, start=1):
        kept = product.json("runs", "rollouts", run_id, "--step", str(number))
        rollouts = kept["rollouts"]
        assert (kept["count"], kept["steps"]) == (8, [1, 2, 3])
        assert len({each["prompt"][0]["content"] for each in rollouts}) == 2
        scores = [each["score"] for each in rollouts]
        assert step["measured"]["reward"] == pytest.approx(sum(scores) / 8)
        for name, mean in step["rewardTerms"].items():
            assert mean == pytest.approx(sum(each["terms"][name] for each in rollouts) / 8)
        assert scores == [sum(each["terms"].values()) for each in rollouts]
