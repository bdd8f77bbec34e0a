"""What a real model does after a restore and in a branch, bit for bit: SmolLM2."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.chaos.world import ENDS, World, until

MODEL = Path(__file__).parents[2] / ".cache" / "models" / "smollm2-135m-instruct"
DATA = Path(__file__).parents[2] / "examples" / "triage" / "train.jsonl"
ROWS = 16  # four updates an epoch
NUMBERS = ("loss", "grad_norm", "learning_rate", "num_tokens", "adapter_norm", "update_ratio")
KILLED_AFTER = 7  # of eight updates; saved are 2, 4 and 6
BRANCHED_AT = 6


def check_exact_restore(world: World, folder: Path) -> str:
    """Train twice, once with a kill, and compare every number and the adapter; what was compared.

    Raises:
        AssertionError: something differs.
    """
    rows = folder / "rows.jsonl"
    folder.mkdir(parents=True)
    rows.write_text("".join(DATA.read_text().splitlines(keepends=True)[:ROWS]))
    plan = {
        "baseModel": str(MODEL),
        "dataset": str(rows),
        "config": {
            "epochs": 2,
            "sequencesPerUpdate": 4,
            "maxSeqLength": 128,
            "lora": {"rank": 8, "dropout": 0.1},
            "schedule": {"kind": "constant", "warmupRatio": 0.0},  # so that a branch has its rates
        },
        "execution": {"saveEvery": 2, "microBatchSequences": 4, "lease": "120s"},
    }
    whole = _ended(world, world.post("/v1/runs", {"plan": plan})["runId"])
    run_id = world.post("/v1/runs", {"plan": plan})["runId"]
    until(lambda: _observed(world, run_id) >= KILLED_AFTER)
    world.signal(run_id, "worker", signal.SIGKILL)
    broken = _ended(world, run_id)

    second = broken["attempts"][1]
    assert second["restoredFrom"]["step"] == KILLED_AFTER - 1, second
    assert second["restoreCheck"]["verdict"] == "exact", second["restoreCheck"]
    ours, theirs = (_numbers(world, each["runId"]) for each in (broken, whole))
    assert ours == theirs, json.dumps([ours, theirs])
    made = [each["results"]["model"]["sha256"] for each in (broken, whole)]
    assert made[0] == made[1], made
    _check_branch(world, whole["runId"])
    return (
        f"SmolLM2 killed after update {KILLED_AFTER} of {len(ours)}, inside its second epoch: "
        f"{len(NUMBERS)} numbers of every update and the adapter {made[0][:12]} are equal, bit for "
        f"bit; a branch from update {BRANCHED_AT} with its training state repeats the rest\n"
    )


def _check_branch(world: World, run_id: str) -> None:
    """A child with its parent's rate and what it had left does what its parent did."""
    snapshots = world.insist(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    source = next(each["snapshotId"] for each in snapshots if each["step"] == BRANCHED_AT)
    parent = _numbers(world, run_id)
    request = {
        "snapshot": source,
        "steps": len(parent) - BRANCHED_AT,
        "restore": "trainingState",
        "submissionId": "exact",
    }
    child = world.post(f"/v1/runs/{run_id}:branch", request)["childRunId"]
    until(lambda: world.insist(f"/v1/runs/{run_id}/branches?submission=exact")["branches"])
    until(lambda: _is_there(world, child))
    record = _ended(world, child)
    assert record["observedStep"] == request["steps"], record["observedStep"]
    own = NUMBERS.index("num_tokens")  # a child counts its own
    ours, theirs = (
        [[value for index, value in enumerate(row) if index != own] for row in rows]
        for rows in (_numbers(world, child), parent[BRANCHED_AT:])
    )
    assert ours == theirs, json.dumps([ours, theirs])


def _is_there(world: World, run_id: str) -> bool:
    try:
        world.get(f"/v1/runs/{run_id}")
    except OSError:
        return False
    return True


def _observed(world: World, run_id: str) -> int:
    observed: int = world.insist(f"/v1/runs/{run_id}")["observedStep"]
    return observed


def _ended(world: World, run_id: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        record: dict[str, Any] = world.insist(f"/v1/runs/{run_id}")
        return record if record["phase"] in ENDS else None

    record = until(ended, seconds=600)
    assert record["phase"] == "COMPLETED", record["failure"]
    return record


def _numbers(world: World, run_id: str) -> list[list[float]]:
    steps = world.insist(f"/v1/runs/{run_id}/metrics")["steps"]
    return [[each["measured"][name] for name in NUMBERS] for each in steps]
