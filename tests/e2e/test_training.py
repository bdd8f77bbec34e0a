"""A real model, trained through the command line, the server and the runner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.product import Product, eventually

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(shared: Product) -> Path:
    """A folder with the base model ``tiny`` and 20 rows, for the plans beside them."""
    folder = shared.home.parent
    model = folder / "tiny"
    subprocess.run(
        [sys.executable, "-c", f"from tests import tiny_model; tiny_model.make({str(model)!r})"],
        check=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Where is parcel {n}?"},
                {"role": "assistant", "content": "on its way"},
            ]
        }
        for n in range(20)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_real_model_is_trained_and_registered(shared: Product, folder: Path) -> None:
    """S12-S14, S42, S43, S46, S84, S90, S93: from rows to a registered adapter."""
    plan = folder / "train.json"
    plan.write_text(
        json.dumps(
            {
                "baseModel": "tiny",  # both are there, beside the plan
                "dataset": "./rows.jsonl",
                "validation": {"fraction": 0.2, "every": 2},
                "config": {"epochs": 1, "sequencesPerUpdate": 4, "maxSeqLength": 200},
            }
        )
    )

    out = shared.run(
        "runs", "start", "-f", str(plan), "--wait", "--exit-status", "-o", "json-compact"
    )

    *events, record = [json.loads(line) for line in out.splitlines()]
    kinds = [event["kind"] for event in events]
    stages = [event["stage"] for event in events if event["kind"] == "stageReported"]
    assert stages.index("tokenizing") > 0
    assert kinds.index("trainingBegan") > max(
        n for n, event in enumerate(events) if event.get("stage") == "tokenizing"
    )
    # 16 of 20 rows are trained on, 4 at a time; the validation has the others.
    assert record["observedStep"] == record["progress"]["total"] == 4
    assert (record["datasetRows"], record["validationRows"]) == (20, 4)
    assert record["results"]["validationLoss"]["step"] == 4
    assert record["dataFit"]["rows"] == 16
    assert record["settings"]["hyperparameters"]
    assert record["settings"]["engineSettings"]["resolved"]
    first, *rest = [each for each in events if "num_tokens" in (each.get("measured") or {})]
    tokens = rest[-1]["measured"]["num_tokens"] - first["measured"]["num_tokens"]
    seconds = sum(each["stepSeconds"] for each in rest)
    assert record["cost"]["throughput"]["tokensPerSecond"] == pytest.approx(tokens / seconds)
    adapter = Path(record["results"]["model"]["path"])
    assert (adapter / "adapter_model.safetensors").is_file()
    steps = shared.steps(record["runId"])
    assert [each["step"] for each in steps] == [1, 2, 3, 4]
    names = {"loss", "grad_norm", "grad_clip_factor", "adapter_norm", "learning_rate"}
    assert all(names <= set(each["measured"]) for each in steps)


def test_a_rank_that_is_killed_costs_the_run_an_attempt_and_nothing_else(
    shared: Product, folder: Path
) -> None:
    """S95, I5, C15: two ranks, of which one dies; the run goes on from its snapshot to its end."""
    plan = folder / "ranks.json"
    plan.write_text(
        json.dumps(
            {
                "baseModel": "tiny",
                "dataset": "./rows.jsonl",
                "config": {
                    "maxSteps": 40,
                    "sequencesPerUpdate": 8,
                    "maxSeqLength": 200,
                    "lora": {"dropout": 0.1},
                },
                "execution": {"devices": 2, "microBatchSequences": 2, "saveEvery": 10},
            }
        )
    )
    run_id = shared.json("runs", "start", "-f", str(plan))["runId"]
    job = shared.folder(run_id) / "worker.json"
    eventually(lambda: any(each["kind"] == "snapshot" for each in shared.spooled(run_id)))

    (other,) = json.loads(job.read_text())["others"]
    psutil.Process(other["pid"]).kill()

    record = shared.wait_for_phase(run_id, "COMPLETED")
    first, second = record["attempts"]
    assert (first["code"], first["signal"], first["rank"]) == ("vanished", 9, 1)
    assert len(first["devices"]) == len(second["devices"]) == 2
    assert second["restoredFrom"]["step"] >= 10
    assert second["restoreCheck"]["verdict"] == "exact"
    # 20 rows by 8 are 3 updates an epoch, the last of 4 rows; none is missing, none is there twice.
    assert record["observedStep"] == record["progress"]["total"] == 40
    assert [each["step"] for each in shared.steps(run_id)] == list(range(1, 41))
    assert (Path(record["results"]["model"]["path"]) / "adapter_model.safetensors").is_file()


def test_a_program_of_ones_own_is_a_trainer(shared: Product) -> None:
    """The example of a command engine, as it is."""
    plan = ROOT / "examples" / "command" / "plan.yaml"
    environment = {"PATH": f"{Path(sys.executable).parent}:{shared.environment['PATH']}"}
    product = Product(shared.home.parent / "own", **environment)
    try:
        out = product.run(
            "runs", "start", "-f", str(plan), "--wait", "--exit-status", "-o", "json-compact"
        )
    finally:
        product.close()

    record = json.loads(out.splitlines()[-1])
    assert record["observedStep"] == 100
    loss = record["results"]["trainingLoss"]
    assert loss["last"] < loss["first"] / 2
