"""A real model, trained through the command line, the server and the runner."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.product import Product

ROOT = Path(__file__).parents[2]


def test_a_real_model_is_trained_and_registered(shared: Product) -> None:
    """S12-S14, S42, S43, S46, S84, S90, S93: from rows to a registered adapter."""
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
    adapter = Path(record["results"]["model"]["path"])
    assert (adapter / "adapter_model.safetensors").is_file()
    steps = shared.steps(record["runId"])
    assert [each["step"] for each in steps] == [1, 2, 3, 4]
    names = {"loss", "grad_norm", "grad_clip_factor", "adapter_norm", "learning_rate"}
    assert all(names <= set(each["measured"]) for each in steps)


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
