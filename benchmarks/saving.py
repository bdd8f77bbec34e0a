"""What a snapshot costs the training of SmolLM2: the worker stands still while it writes one."""

import json
from typing import Any

from benchmarks.home import ROOT
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50

MODEL = ROOT / ".cache" / "models" / "smollm2-135m-instruct"
DATA = ROOT / "examples" / "triage" / "train.jsonl"
UPDATES = 6
SAVE_EVERY = 20  # updates, as a plan has it that does not say otherwise


def measure(place: Place) -> Result:
    """Save every update, and read both times from what the worker said itself."""
    home = place.home
    run_id = home.submit(
        "trl",
        {"saveEvery": 1, "maxAttempts": 1, "microBatchSequences": 4},
        baseModel=str(MODEL),
        dataset=str(DATA),
        config={"maxSteps": UPDATES, "sequencesPerUpdate": 8, "maxSeqLength": 192},
    )
    home.ended(run_id)
    lines = [json.loads(line) for line in home.spool(run_id).read_text().splitlines()]
    saves = p50([after["at"] - before["at"] for before, after in _saved(lines)])
    update = p50([each["stepSeconds"] for each in lines if "stepSeconds" in each][1:])
    return Result(
        [
            Figure("save of weights and training state", saves * 1e3, "ms"),
            Figure("of an update, where each is saved", 100 * saves / update, "%"),
            Figure(f"where each {SAVE_EVERY}th is saved", 100 * saves / update / SAVE_EVERY, "%"),
        ],
        f"SmolLM2-135M, rank 16, updates of 8 sequences ({update:.1f} s); hashing and copying"
        " are the server's",
    )


def _saved(lines: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The line of each update with that of its snapshot, but for the first, which warms up."""
    steps: dict[int, dict[str, Any]] = {}
    for each in lines:
        if each["kind"] == "step":
            steps.setdefault(each["step"], each)
    snapshots = [each for each in lines if each["kind"] == "snapshot"]
    return [(steps[each["step"]], each) for each in snapshots[1:-1]]
