"""The scripted trainer, as a process of its own."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger import plan, reports

REPOSITORY = Path(__file__).parents[2]


class Sim:
    """One worker of a plan with a script."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spool = home / "spool.jsonl"
        self.output = home / "output"

    def start(self, *script: dict[str, Any], **config: Any) -> subprocess.Popen[str]:
        """Start the worker."""
        document = {"baseModel": "b", "dataset": "d", "engine": {"sim": script}, "config": config}
        resolved, _ = plan.resolve(plan.parse(document))
        (self.home / "plan.json").write_text(json.dumps(resolved))
        environment = {
            "PYTHONPATH": str(REPOSITORY),
            "TRAINLEDGER_SPOOL": str(self.spool),
            "TRAINLEDGER_PLAN": str(self.home / "plan.json"),
            "TRAINLEDGER_OUTPUT": str(self.output),
            "TRAINLEDGER_CONTROL": str(self.home / "control.json"),
        }
        command = [sys.executable, "-m", "engine.worker.sim"]
        return subprocess.Popen(
            command, env=os.environ | environment, stderr=subprocess.PIPE, text=True
        )

    def run(self, *script: dict[str, Any], **config: Any) -> tuple[int, str]:
        """Exit code and standard error of the worker."""
        process = self.start(*script, **config)
        _, talk = process.communicate(timeout=30)
        return process.returncode, talk

    def said(self) -> list[dict[str, Any]]:
        """The reports, as the ledger understands them."""
        lines = self.spool.read_text().splitlines()
        return [reports.parse(line).model_dump(exclude={"at"}, exclude_none=True) for line in lines]

    def kinds(self) -> list[str]:
        """The kind of each report."""
        return [report["kind"] for report in self.said()]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


def test_a_script_is_carried_out_in_order(sim: Sim) -> None:
    """design.md, engine: sim, a scripted trainer."""
    ended = sim.run(
        {"stage": "reading rows", "completed": 3, "total": 10},
        {"training": 3},
        {"steps": 2},
        {"step": 3, "measured": {"loss": 0.5, "entropy": 0.25}},
        {"validation": 3, "measured": {"accuracy": 0.75}},
        {"restore": 1},
        {"steps": 1},
    )

    assert ended == (0, "")
    said = sim.said()
    assert [report["kind"] for report in said] == [
        *("stage", "training", "step", "step", "step"),
        *("validation", "restore", "step", "completed"),
    ]
    assert said[0] == {"kind": "stage", "stage": "reading rows", "completed": 3, "total": 10}
    assert said[1] == {"kind": "training", "total_steps": 3}
    assert [report["step"] for report in said[2:8]] == [1, 2, 3, 3, 1, 2]
    assert said[4]["measured"]["loss"] == 0.5
    assert said[4]["measured"]["entropy"] == 0.25
    assert said[5]["measured"]["accuracy"] == 0.75
    assert said[3]["measured"] == said[7]["measured"]


def test_every_step_measures_what_an_engine_would(sim: Sim) -> None:
    """S80: loss, gradient, adapter and learning rate."""
    sim.run({"steps": 100}, learningRate=1e-3, maxGradNorm=0.75)

    steps = [report["measured"] for report in sim.said()[:-1]]
    assert set(steps[0]) == {
        *("loss", "grad_norm", "grad_clip_factor"),
        *("adapter_norm", "update_ratio", "learning_rate"),
    }
    assert steps[0]["loss"] > 1.9
    assert steps[-1]["loss"] < 0.3
    for measured in steps:
        assert measured["learning_rate"] == 1e-3
        assert measured["grad_clip_factor"] == min(1.0, 0.75 / measured["grad_norm"])


def test_a_script_may_measure_what_is_not_finite(sim: Sim) -> None:
    """design.md: NaN and infinities are values."""
    sim.run({"step": 1, "measured": {"loss": "NaN", "grad_norm": "Infinity"}})

    said = json.loads(sim.spool.read_text().splitlines()[0])["measured"]
    assert (said["loss"], said["grad_norm"]) == ("NaN", "Infinity")


def test_two_runs_of_one_plan_say_the_same_and_another_seed_does_not(tmp_path: Path) -> None:
    """design.md: time, randomness and settings come in as arguments."""
    said = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        (tmp_path / name).mkdir()
        sim = Sim(tmp_path / name)
        sim.run({"steps": 5}, {"validation": 5}, seed=seed)
        said.append(sim.said())

    assert said[0] == said[1]
    assert said[0] != said[2]


def test_the_model_is_a_file_with_the_digest_that_was_reported(sim: Sim) -> None:
    """S113: what the run made can be checked."""
    sim.run({"steps": 2}, {"model": True})

    model = sim.said()[2]
    content = Path(model["path"]).read_bytes()
    assert model["step"] == 2
    assert model["sha256"] == hashlib.sha256(content).hexdigest()
    assert model["size_bytes"] == len(content)
    assert json.loads(content[8:])["__metadata__"]["step"] == "2"
    assert int.from_bytes(content[:8], "little") == len(content) - 8


def test_a_snapshot_is_a_folder_with_files(sim: Sim) -> None:
    """design.md: a snapshot is any folder that the trainer names."""
    sim.run({"snapshot": 20})

    snapshot = sim.said()[0]
    assert snapshot["step"] == 20
    assert snapshot["artifacts"] == ("weights", "trainingState")
    assert [each.name for each in Path(snapshot["path"]).iterdir()] == ["adapter_model.safetensors"]


@pytest.mark.parametrize(
    ("instruction", "code", "last"),
    [
        ({"refuse": "no row fits"}, 65, {"kind": "refused", "reason": "no row fits"}),
        ({"crash": "exception"}, 70, {"kind": "failed", "cause": "unknown"}),
        ({"crash": "deviceMemory"}, 70, {"kind": "failed", "cause": "deviceMemory"}),
        ({"crash": "hostMemory"}, 70, {"kind": "failed", "cause": "hostMemory"}),
        ({"crash": "SIGKILL"}, -signal.SIGKILL, {"kind": "restore", "step": 0}),
        ({"crash": "SIGTERM"}, -signal.SIGTERM, {"kind": "restore", "step": 0}),
        ({"crash": "exit0"}, 0, {"kind": "restore", "step": 0}),
    ],
)
def test_a_run_ends_as_its_script_says(
    sim: Sim, instruction: dict[str, Any], code: int, last: dict[str, Any]
) -> None:
    """S70, S79: every way to end that a real worker has."""
    ended, _ = sim.run({"restore": 0}, instruction, {"step": 1})

    assert ended == code
    assert sim.said()[-1] == last


def test_a_crash_leaves_its_traceback_on_standard_error(sim: Sim) -> None:
    """S79: the log of a worker says where it failed."""
    _, talk = sim.run({"crash": "exception"})

    assert talk.startswith("Traceback")
    assert talk.rstrip().endswith("the script of this run says that its trainer crashes here")


def test_any_characters_may_be_said(sim: Sim) -> None:
    """C32: lines that are no reports."""
    sim.run({"line": "no JSON ✓"}, {"line": ""})

    assert sim.spool.read_text().splitlines()[:2] == ["no JSON ✓", ""]


@pytest.mark.parametrize(
    "instruction", [{"silence": 600}, {"steps": 1_000_000}, {"step": 1, "seconds": 600}]
)
def test_a_request_to_stop_ends_pauses_and_steps_alike(
    sim: Sim, instruction: dict[str, Any]
) -> None:
    """cluster.md section 2: 143, stopped on request."""
    process = sim.start({"training": 0}, instruction)
    fresh = sim.home / "control.new"
    fresh.write_text('{"request": "stop", "serial": 1}')
    fresh.replace(sim.home / "control.json")

    process.communicate(timeout=30)

    assert process.returncode == 143
    assert "completed" not in sim.kinds()


def test_sim_starts_without_heavy_imports() -> None:
    """design.md: sim, without torch."""
    program = "import sys, engine.worker.sim; print(sorted({'torch', 'pydantic'} & {*sys.modules}))"

    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert shown.stdout == "[]\n"
