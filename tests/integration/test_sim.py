"""The scripted trainer, as a process of its own."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from ledger import plan, reports

REPOSITORY = Path(__file__).parents[2]
Script = list[dict[str, Any]]
Branch = Literal["weights", "trainingState"]
SPARSE = {"saveEvery": 1, "resumableSaveEvery": 2}


class Sim:
    """The worker of one attempt at a plan with a script."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.spool = home / "spool.jsonl"
        self.output = home / "output"
        self._serial = 0

    def start(
        self,
        *script: dict[str, Any],
        attempt: int = 1,
        restore: Path | None = None,
        branch: tuple[Branch, Path | None] | None = None,
        execution: dict[str, Any] | None = None,
        **config: Any,
    ) -> subprocess.Popen[str]:
        """Start the worker; a ``branch`` is of a kind, and has an origin until it saves itself."""
        document = {
            "baseModel": "b",
            "dataset": "d",
            "engine": {"sim": script},
            "config": config,
            "execution": execution or {},
        }
        resolved, _ = plan.resolve(plan.parse(document))
        (self.home / "plan.json").write_text(json.dumps(resolved))
        environment = {
            "PYTHONPATH": str(REPOSITORY),
            "TRAINLEDGER_ATTEMPT": str(attempt),
            "TRAINLEDGER_SPOOL": str(self.spool),
            "TRAINLEDGER_PLAN": str(self.home / "plan.json"),
            "TRAINLEDGER_OUTPUT": str(self.output),
            "TRAINLEDGER_CONTROL": str(self.home / "control.json"),
        }
        if restore is not None:
            environment["TRAINLEDGER_RESTORE"] = str(restore)
        if branch is not None:
            kind, origin = branch
            environment |= {"TRAINLEDGER_BRANCH": kind, "TRAINLEDGER_ORIGIN": str(origin or "")}
        command = [sys.executable, "-m", "engine.worker.sim"]
        return subprocess.Popen(
            command, env=os.environ | environment, stderr=subprocess.PIPE, text=True
        )

    def run(self, *script: dict[str, Any], **facts: Any) -> tuple[int, str]:
        """Exit code and standard error of the worker."""
        process = self.start(*script, **facts)
        _, talk = process.communicate(timeout=30)
        return process.returncode, talk

    def ask(self, request: str | None) -> None:
        """Ask for this, or for nothing any more."""
        self._serial += 1
        fresh = self.home / "control.new"
        fresh.write_text(json.dumps({"request": request, "serial": self._serial}))
        fresh.replace(self.home / "control.json")

    def wait_for(self, fact: Callable[[], Any]) -> None:
        """Wait until ``fact()`` holds."""
        end = time.monotonic() + 20.0
        while not fact():
            assert time.monotonic() < end, self.kinds()
            time.sleep(0.005)

    def said(self) -> list[dict[str, Any]]:
        """The reports, as the ledger understands them."""
        if not self.spool.exists():
            return []
        lines = self.spool.read_text().splitlines()
        return [reports.parse(line).model_dump(exclude={"at"}, exclude_none=True) for line in lines]

    def kinds(self) -> list[str]:
        """The kind of each report."""
        return [report["kind"] for report in self.said()]

    def steps(self) -> list[int]:
        """The updates, in the order in which they were made."""
        return [report["step"] for report in self.said() if report["kind"] == "step"]

    def snapshots(self) -> list[dict[str, Any]]:
        """What was saved, oldest first."""
        return [report for report in self.said() if report["kind"] == "snapshot"]

    def newest(self) -> Path:
        """The folder of the newest snapshot."""
        return Path(self.snapshots()[-1]["path"])


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


@pytest.fixture
def later(tmp_path: Path) -> Sim:
    """A later attempt of the same run."""
    return Sim(tmp_path / "later")


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


def test_a_script_may_have_rollouts_scored_before_each_update(sim: Sim) -> None:
    """S125, S132: the mean of each term is what the update says that it gave to the reward."""
    sim.run({"steps": 2, "rollouts": 3}, {"step": 3}, seed=5)

    said = sim.said()
    assert [(each["kind"], each.get("step")) for each in said[:-1]] == [
        *(("rollouts", 1), ("step", 1), ("rollouts", 2), ("step", 2), ("step", 3)),
    ]
    rollouts, step = said[0]["rollouts"], said[1]
    assert [each["completion"] for each in rollouts] == ["It is 1.", "It is 2.", "It is 3."]
    for name, mean in step["reward_terms"].items():
        assert mean == pytest.approx(sum(each["terms"][name] for each in rollouts) / 3)
    for each in rollouts:
        assert each["score"] == sum(each["terms"].values())
    assert "reward_terms" not in said[4]


def test_a_script_may_measure_what_is_not_finite(sim: Sim) -> None:
    """design.md: NaN and infinities are values."""
    sim.run({"step": 1, "measured": {"loss": "NaN", "grad_norm": "Infinity"}})

    said = json.loads(sim.spool.read_text().splitlines()[0])["measured"]
    assert (said["loss"], said["grad_norm"]) == ("NaN", "Infinity")


def test_two_runs_of_one_plan_say_the_same_and_another_seed_does_not(tmp_path: Path) -> None:
    """design.md: time, randomness and settings come in as arguments."""
    said = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
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


def test_a_snapshot_is_a_folder_with_weights_and_training_state(sim: Sim) -> None:
    """I9: what is restored from; nothing is left behind that is not whole."""
    sim.run({"training": 40}, {"steps": 20}, {"snapshot": 20}, epochs=2)

    (snapshot,) = sim.snapshots()
    assert snapshot == {
        "kind": "snapshot",
        "step": 20,
        "path": str(sim.output / "checkpoint-20"),
        "artifacts": ("weights", "trainingState"),
        "epoch": 1.0,
        "writer": {"engine": "sim", "engineVersion": "1", "worldSize": 1, "baseModel": "b"},
    }
    files = [each for each in sim.output.rglob("*") if each.is_file()]
    assert sorted(str(each.relative_to(sim.output)) for each in files) == [
        "checkpoint-20/adapter_model.safetensors",
        "checkpoint-20/trainingState/state.json",
    ]


def test_snapshots_are_written_at_multiples_of_the_updates_between_them(sim: Sim) -> None:
    """I9: as often as the script says, each after its update."""
    sim.run({"steps": 3}, {"steps": 7, "saveEvery": 4}, {"steps": 4})

    assert [report["step"] for report in sim.snapshots()] == [4, 8]
    assert sim.kinds()[3:6] == ["step", "snapshot", "step"]


def test_a_snapshot_may_hold_weights_alone(sim: Sim) -> None:
    """I11: where the plan wants to resume less often; the last update can always be resumed."""
    sim.run({"training": 5}, {"steps": 5, "saveEvery": 1}, execution=SPARSE)

    assert [len(report["artifacts"]) for report in sim.snapshots()] == [1, 2, 1, 2, 2]
    assert sim.snapshots()[0]["artifacts"] == ("weights",)
    assert not (sim.output / "checkpoint-1" / "trainingState").exists()
    assert (sim.output / "checkpoint-5" / "trainingState").exists()


def test_a_snapshot_of_a_step_that_was_saved_before_has_a_folder_of_its_own(sim: Sim) -> None:
    """I9: a folder belongs to the server once it was reported."""
    sim.run({"steps": 2, "saveEvery": 2}, {"restore": 1}, {"steps": 2, "saveEvery": 2})

    assert [Path(report["path"]).name for report in sim.snapshots()] == [
        "checkpoint-2",
        "checkpoint-2-2",
    ]


def test_a_snapshot_that_was_only_begun_is_never_reported(sim: Sim) -> None:
    """I9: interrupted saves are no snapshots."""
    sim.run({"steps": 2}, {"partial": 2}, {"crash": "exit0"})

    assert sim.kinds() == ["step", "step"]
    assert [each.name for each in sim.output.iterdir()] == ["checkpoint-2.partial"]


def test_a_save_that_fails_is_said_and_the_training_goes_on(sim: Sim) -> None:
    """I4: a failed save never counts as success."""
    sim.output.write_text("no folder")

    sim.run({"steps": 2, "saveEvery": 2}, {"steps": 1})

    assert sim.kinds() == ["step", "step", "saveFailed", "step", "completed"]
    reason = "the files could not be written: Not a directory"
    assert sim.said()[2] == {"kind": "saveFailed", "step": 2, "reason": reason}


def test_a_script_may_say_that_a_save_failed(sim: Sim) -> None:
    """I4."""
    sim.run({"steps": 2}, {"saveFails": True}, {"saveFails": False})

    assert sim.kinds() == ["step", "step", "saveFailed", "completed"]


def test_an_instruction_may_be_meant_for_one_attempt_only(sim: Sim, later: Sim) -> None:
    """U3: a run that dies once and then goes through."""
    script: Script = [{"steps": 2}, {"crash": "SIGKILL", "attempt": 1}, {"steps": 1, "attempt": 2}]

    assert sim.run(*script)[0] == -signal.SIGKILL
    assert later.run(*script, attempt=2)[0] == 0

    assert (sim.steps(), later.steps()) == ([1, 2], [1, 2, 3])


def test_an_attempt_goes_on_right_after_what_its_snapshot_holds(sim: Sim, later: Sim) -> None:
    """I5: it repeats the updates after the snapshot, with the same numbers, and none before it."""
    script: Script = [
        {"stage": "reading rows"},
        {"training": 7},
        {"steps": 5, "saveEvery": 3},
        {"crash": "SIGKILL", "attempt": 1},
        {"steps": 2},
        {"validation": 7},
    ]
    sim.run(*script)

    ended = later.run(*script, attempt=2, restore=sim.newest())

    assert ended == (0, "")
    assert later.said()[:2] == [
        {
            "kind": "restoreCheck",
            "step": 3,
            "verdict": "exact",
            "parts": {"adapter": "exact", "dataPosition": "exact"},
        },
        {"kind": "training", "total_steps": 7},
    ]
    assert later.kinds()[2:] == ["step"] * 4 + ["validation", "completed"]
    assert later.steps() == [4, 5, 6, 7]
    measured = [
        [each for each in said if each["kind"] == "step"] for said in (sim.said(), later.said())
    ]
    assert measured[1][:2] == measured[0][3:]


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        ([{"training": 0}, {"steps": 2}, {"snapshot": 2}], ["restoreCheck", "training"]),
        ([{"steps": 2, "saveEvery": 2}, {"stage": "late"}], ["restoreCheck", "stage"]),
        ([{"step": 9}, {"snapshot": 9}, {"steps": 1}], ["restoreCheck", "step"]),
        ([{"steps": 4}, {"snapshot": 2}, {"steps": 1}], ["restoreCheck", "step"]),
    ],
)
def test_wherever_a_snapshot_was_made_what_follows_it_is_carried_out_once(
    sim: Sim, later: Sim, script: Script, kinds: list[str]
) -> None:
    """I5: training is announced again only where it was before."""
    sim.run(*script)

    later.run(*script, attempt=2, restore=sim.newest())

    assert later.kinds() == [*kinds, "completed"]
    steps = [report["step"] for report in later.said() if report["kind"] == "step"]
    assert steps in ([], [sim.snapshots()[-1]["step"] + 1])


def test_an_attempt_can_be_restored_from_one_that_was_restored(sim: Sim, later: Sim) -> None:
    """I5: as often as it takes."""
    script: Script = [{"training": 9}, {"steps": 9, "saveEvery": 3}, {"model": True}]
    sim.run(*script)
    third = Sim(sim.home / "third")

    later.run(*script, attempt=2, restore=sim.output / "checkpoint-3")
    third.run(*script, attempt=3, restore=later.output / "checkpoint-6")

    assert (later.steps(), third.steps()) == ([4, 5, 6, 7, 8, 9], [7, 8, 9])
    assert third.said()[-2]["sha256"] == sim.said()[-2]["sha256"]


def test_weights_that_are_not_those_of_the_state_are_said_to_differ(sim: Sim, later: Sim) -> None:
    """I9: what was restored is compared with what was saved."""
    sim.run({"steps": 2}, {"snapshot": 1}, {"snapshot": 2})
    other, folder = sim.output / "checkpoint-1", sim.newest()
    (other / "adapter_model.safetensors").replace(folder / "adapter_model.safetensors")

    later.run({"steps": 2}, {"snapshot": 1}, {"snapshot": 2}, attempt=2, restore=folder)

    assert later.said()[0]["verdict"] == "differs"
    assert later.said()[0]["parts"] == {"adapter": "differs", "dataPosition": "exact"}


def _without_state(folder: Path) -> None:
    (folder / "trainingState" / "state.json").unlink()


def _without_weights(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()


def _of_another_engine(folder: Path) -> None:
    (folder / "trainingState" / "state.json").write_text('{"global_step": 2}')


def _torn(folder: Path) -> None:
    (folder / "trainingState" / "state.json").write_text('{"format": 1, "st')


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_without_state, "the snapshot to go on from holds no training state"),
        (_without_weights, "the snapshot to go on from holds no weights"),
        (
            _of_another_engine,
            "the snapshot to go on from holds the training state of another engine",
        ),
        (_torn, "the snapshot to go on from holds the training state of another engine"),
    ],
)
def test_what_is_no_whole_snapshot_is_refused(
    sim: Sim, later: Sim, harm: Callable[[Path], None], reason: str
) -> None:
    """I9, I11: nothing begins from the start in silence."""
    sim.run({"steps": 2, "saveEvery": 2})
    harm(sim.newest())

    ended = later.run({"steps": 2}, attempt=2, restore=sim.newest())

    assert ended == (65, "")
    assert later.said() == [{"kind": "refused", "reason": reason}]


@pytest.mark.parametrize(
    ("instruction", "code", "last"),
    [
        ({"refuse": "no row fits"}, 65, {"kind": "refused", "reason": "no row fits"}),
        ({"crash": "exception"}, 70, {"kind": "failed", "cause": "unknown"}),
        ({"crash": "deviceMemory"}, 70, {"kind": "failed", "cause": "deviceMemory"}),
        ({"crash": "rolloutMemory"}, 70, {"kind": "failed", "cause": "rolloutMemory"}),
        ({"crash": "handoverMemory"}, 70, {"kind": "failed", "cause": "handoverMemory"}),
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
    "instruction",
    [{"silence": 600}, {"steps": 1_000_000, "seconds": 0.001}, {"step": 1, "seconds": 600}],
)
def test_a_request_to_stop_ends_pauses_and_steps_alike(
    sim: Sim, instruction: dict[str, Any]
) -> None:
    """cluster.md section 2: 143, stopped on request; nothing needs saving."""
    process = sim.start({"steps": 3}, {"training": 0}, instruction)
    sim.wait_for(lambda: "training" in sim.kinds())

    sim.ask("stop")
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert not {"completed", "snapshot", "saveFailed"} & set(sim.kinds())


def _ask_for_a_pause(sim: Sim, _: subprocess.Popen[str]) -> None:
    sim.ask("pause")


def _send_sigterm(_: Sim, process: subprocess.Popen[str]) -> None:
    process.terminate()


WAYS_TO_PAUSE = pytest.mark.parametrize("pause", [_ask_for_a_pause, _send_sigterm])
Pause = Callable[[Sim, "subprocess.Popen[str]"], None]


@WAYS_TO_PAUSE
@pytest.mark.parametrize(
    "instruction",
    [{"silence": 600}, {"steps": 1_000_000, "seconds": 0.001}, {"step": 9, "seconds": 600}],
)
def test_a_pause_keeps_every_update(
    sim: Sim, later: Sim, pause: Pause, instruction: dict[str, Any]
) -> None:
    """I4, S78: asked for by the server or by the cluster, whatever the script is at."""
    script: Script = [{"training": 0}, {"steps": 3}, instruction]
    process = sim.start(*script)
    sim.wait_for(lambda: len(sim.steps()) >= 3)

    pause(sim, process)
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert sim.kinds()[-1] == "snapshot"
    assert sim.snapshots()[0]["step"] == sim.steps()[-1]
    assert sim.snapshots()[0]["artifacts"] == ("weights", "trainingState")
    again = later.start(*script, attempt=2, restore=sim.newest())
    later.wait_for(lambda: "training" in later.kinds())
    pause(later, again)
    again.communicate(timeout=30)
    assert later.steps()[:1] in ([], [sim.steps()[-1] + 1])


@WAYS_TO_PAUSE
@pytest.mark.parametrize(
    "script",
    [[], [{"steps": 2, "saveEvery": 2}], [{"steps": 2}, {"snapshot": 2}], [{"restore": 0}]],
)
def test_a_pause_saves_nothing_twice(sim: Sim, pause: Pause, script: Script) -> None:
    """I4: with every update saved, or none made, it is over at once."""
    process = sim.start(*script, {"stage": "waiting"}, {"silence": 600})
    sim.wait_for(lambda: "stage" in sim.kinds())
    before = sim.kinds()

    pause(sim, process)
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert sim.kinds() == before


def test_a_pause_saves_training_state_where_only_weights_were_saved(sim: Sim) -> None:
    """I4, I11: nothing could be resumed otherwise."""
    process = sim.start({"steps": 3, "saveEvery": 1}, {"silence": 600}, execution=SPARSE)
    sim.wait_for(lambda: len(sim.snapshots()) == 3)

    sim.ask("pause")
    process.communicate(timeout=30)

    assert [report["step"] for report in sim.snapshots()] == [1, 2, 3, 3]
    assert sim.snapshots()[-1]["artifacts"] == ("weights", "trainingState")


def test_a_pause_after_a_restore_saves_only_what_is_new(sim: Sim, later: Sim) -> None:
    """I4: what it went on from is saved."""
    script: Script = [{"steps": 2, "saveEvery": 2}, {"stage": "waiting"}, {"silence": 600}]
    first = sim.start(*script)
    sim.wait_for(sim.snapshots)
    sim.ask("stop")
    first.communicate(timeout=30)

    second = later.start(*script, attempt=2, restore=sim.newest())
    later.wait_for(lambda: "stage" in later.kinds())
    later.ask("pause")
    second.communicate(timeout=30)

    assert second.returncode == 143
    assert later.kinds() == ["restoreCheck", "stage"]


def test_a_run_whose_pause_cannot_be_saved_goes_on_and_can_be_paused_later(sim: Sim) -> None:
    """I4: a failed save never counts as success."""
    script: Script = [{"steps": 2}, {"saveFails": True}, {"steps": 1_000_000, "seconds": 0.001}]
    process = sim.start(*script)
    sim.wait_for(lambda: len(sim.steps()) > 5)

    sim.ask("pause")
    sim.wait_for(lambda: sim.kinds().count("saveFailed") == 2)
    failed_at = sim.steps()[-1]
    sim.wait_for(lambda: sim.steps()[-1] > failed_at + 5)
    sim.ask(None)
    withdrawn_at = sim.steps()[-1]
    sim.wait_for(lambda: sim.steps()[-1] > withdrawn_at + 5)
    sim.ask("pause")
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert sim.kinds().count("saveFailed") == 2
    assert [report["step"] for report in sim.snapshots()] == [sim.steps()[-1]]


def test_a_worker_that_gets_sigterm_ends_even_where_it_cannot_save(sim: Sim) -> None:
    """S78: whoever sends it will not wait."""
    process = sim.start({"steps": 2}, {"saveFails": True}, {"silence": 600})
    sim.wait_for(lambda: "saveFailed" in sim.kinds())

    process.terminate()
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert sim.kinds() == ["step", "step", "saveFailed", "saveFailed"]


# Branches: the parent is killed after 10 updates; its snapshots are of 4 and 8.


PARENT: Script = [
    {"stage": "reading rows"},
    {"training": 20},
    {"steps": 10, "saveEvery": 4, "measured": {"entropy": 0.5}},
    {"crash": "SIGKILL"},
]
KINDS = pytest.mark.parametrize("kind", ["weights", "trainingState"])


@pytest.fixture
def parent(tmp_path: Path) -> Sim:
    parent = Sim(tmp_path / "parent")
    parent.run(*PARENT)
    return parent


def measured(sim: Sim) -> list[dict[str, float]]:
    """The numbers of each update, without what the script of the parent added to them."""
    return [
        {name: value for name, value in report["measured"].items() if name != "entropy"}
        for report in sim.said()
        if report["kind"] == "step"
    ]


@KINDS
def test_a_branch_makes_its_own_updates_and_not_those_of_the_script(
    sim: Sim, parent: Sim, kind: Branch
) -> None:
    """S28, S138, S141, C22: 5 more, counted from 1, with saves as planned and of the last one."""
    branch = (kind, parent.output / "checkpoint-8")

    ended = sim.run(*PARENT, branch=branch, maxSteps=5, execution={"saveEvery": 2})

    assert ended == (0, "")
    assert sim.kinds() == [
        *("restoreCheck", "training", "step", "step", "snapshot", "step", "step", "snapshot"),
        *("step", "validation", "snapshot", "model", "completed"),
    ]
    assert sim.said()[1] == {"kind": "training", "total_steps": 5}
    assert sim.steps() == [1, 2, 3, 4, 5]
    assert [report["step"] for report in sim.snapshots()] == [2, 4, 5]
    assert [report["step"] for report in sim.said()[-4:-1]] == [5, 5, 5]


def test_the_last_update_of_a_branch_is_saved_once(sim: Sim, parent: Sim) -> None:
    """I7: also where it is saved as planned."""
    branch: Any = ("weights", parent.output / "checkpoint-8")

    sim.run(*PARENT, branch=branch, maxSteps=4, execution={"saveEvery": 2})

    assert [report["step"] for report in sim.snapshots()] == [2, 4]


def test_a_branch_of_training_state_goes_on_with_the_engines_count(sim: Sim, parent: Sim) -> None:
    """S124, S144: the numbers that the parent would have had, each with its engine step."""
    whole = Sim(parent.home / "whole")
    whole.run({"steps": 13})

    sim.run(*PARENT, branch=("trainingState", parent.output / "checkpoint-8"), maxSteps=5)

    counted = [each | {"engine_step": step} for step, each in enumerate(measured(whole), start=1)]
    assert measured(sim) == counted[8:]
    assert sim.said()[0] == {
        "kind": "restoreCheck",
        "step": 0,
        "verdict": "exact",
        "parts": {"adapter": "exact", "dataPosition": "exact"},
    }


def test_a_branch_of_weights_has_the_parents_weights_and_begins_anew(sim: Sim, parent: Sim) -> None:
    """C31, S143: loss and norm go on; the rest is that of first updates."""
    shutil.rmtree(parent.output / "checkpoint-8" / "trainingState")
    whole = Sim(parent.home / "whole")
    whole.run({"steps": 13})

    sim.run(*PARENT, branch=("weights", parent.output / "checkpoint-8"), maxSteps=5)

    for name, begins_at in {"loss": 8, "adapter_norm": 8, "grad_norm": 0}.items():
        expected = [each[name] for each in measured(whole)][begins_at : begins_at + 5]
        assert [each[name] for each in measured(sim)] == expected
    assert not any("engine_step" in each for each in measured(sim))
    assert sim.said()[0]["parts"] == {"adapter": "exact"}


@KINDS
def test_a_branch_that_was_stopped_goes_on_from_its_own_snapshot(
    sim: Sim, later: Sim, parent: Sim, kind: Branch
) -> None:
    """I5: the same numbers as one that was never stopped, over the same budget."""
    origin = parent.output / "checkpoint-4"
    sim.run(*PARENT, branch=(kind, origin), maxSteps=5, execution={"saveEvery": 2})
    saved = sim.output / "checkpoint-2"

    later.run(*PARENT, branch=(kind, None), restore=saved, attempt=2, maxSteps=5)

    assert (later.said()[0]["step"], later.said()[0]["verdict"]) == (2, "exact")
    assert later.said()[1] == {"kind": "training", "total_steps": 5}
    assert later.steps() == [3, 4, 5]
    assert measured(later) == measured(sim)[2:]
    assert later.said()[-2]["sha256"] == sim.said()[-2]["sha256"]


def test_a_branch_of_a_branch_goes_on_from_there(sim: Sim, later: Sim, parent: Sim) -> None:
    """S144: through any number of runs."""
    whole = Sim(parent.home / "whole")
    whole.run({"steps": 13})
    origin = parent.output / "checkpoint-8"
    sim.run(*PARENT, branch=("trainingState", origin), maxSteps=3, execution={"saveEvery": 2})

    later.run(*PARENT, branch=("trainingState", sim.output / "checkpoint-2"), maxSteps=3)

    counted = [each | {"engine_step": step} for step, each in enumerate(measured(whole), start=1)]
    assert later.steps() == [1, 2, 3]
    assert measured(later) == counted[10:]


@WAYS_TO_PAUSE
@KINDS
def test_a_branch_can_be_paused_and_makes_the_rest_later(
    sim: Sim, later: Sim, parent: Sim, kind: Branch, pause: Pause
) -> None:
    """I4: at the pace of the script's updates, so that there is time for it."""
    slow, quick = ({"steps": 1, "seconds": seconds} for seconds in (0.1, 0))
    origin = parent.output / "checkpoint-8"
    process = sim.start(slow, branch=(kind, origin), maxSteps=60)
    sim.wait_for(lambda: len(sim.steps()) >= 2)

    pause(sim, process)
    process.communicate(timeout=30)
    later.run(quick, branch=(kind, None), restore=sim.newest(), attempt=2, maxSteps=60)

    assert process.returncode == 143
    assert sim.steps() + later.steps() == list(range(1, 61))
    assert later.said()[-1] == {"kind": "completed"}


@pytest.mark.parametrize(
    ("kind", "file", "reason"),
    [
        ("weights", "adapter_model.safetensors", "the weights of another engine"),
        ("trainingState", "trainingState/state.json", "the training state of another engine"),
    ],
)
def test_a_branch_begins_from_a_snapshot_of_this_engine_alone(
    sim: Sim, parent: Sim, kind: Branch, file: str, reason: str
) -> None:
    """S151, C31: nothing begins anew in silence."""
    origin = parent.output / "checkpoint-8"
    (origin / file).write_bytes(b"12345678{}")

    ended = sim.run(*PARENT, branch=(kind, origin), maxSteps=5)

    assert ended == (65, "")
    reason = f"the snapshot to go on from holds {reason}"
    assert sim.said() == [{"kind": "refused", "reason": reason}]


def test_a_branch_that_is_told_of_no_snapshot_trains_nothing(sim: Sim) -> None:
    """C31: whoever started it is at fault, and the log says why."""
    code, talk = sim.run(*PARENT, branch=("weights", None), maxSteps=5)

    assert code == 70
    assert "a branch needs kind and origin" in talk
    assert sim.said() == [{"kind": "failed", "cause": "unknown"}]


CHECK = {"name": "loss", "value": 1.5, "warnLimit": 1, "refuseLimit": 2, "unit": "nats"}


def test_a_scripted_check_is_reported_with_its_verdict(sim: Sim) -> None:
    """S15: 1.5 is beyond 1 and not beyond 2, so the script goes on."""
    assert sim.run({"startCheck": CHECK}, {"training": 1}, {"steps": 1}) == (0, "")

    assert sim.kinds() == ["startCheck", "training", "step", "completed"]
    assert sim.said()[0] == {
        "kind": "startCheck",
        "name": "loss",
        "value": 1.5,
        "warn_limit": 1.0,
        "refuse_limit": 2.0,
        "unit": "nats",
        "seconds": 0.0,
        "verdict": "warned",
    }


def test_a_scripted_check_that_is_refused_ends_the_attempt(sim: Sim) -> None:
    """S15, S66: exit 65, and the sentence has check, value and limit."""
    assert sim.run({"startCheck": CHECK | {"value": float("nan")}}, {"steps": 1}) == (65, "")

    assert sim.kinds() == ["startCheck", "refused"]
    assert sim.said()[1]["reason"] == (
        "the start check loss found nan, and its limit is 2.0; the script of this run says so"
    )


def test_a_plan_without_start_checks_makes_none(sim: Sim) -> None:
    """I19: switched off in ``execution``."""
    ended = sim.run({"startCheck": CHECK}, {"steps": 1}, execution={"startChecks": False})

    assert ended == (0, "")
    assert sim.kinds() == ["step", "completed"]


def test_sim_starts_without_heavy_imports() -> None:
    """design.md: sim, without torch."""
    program = "import sys, engine.worker.sim; print(sorted({'torch', 'pydantic'} & {*sys.modules}))"

    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert shown.stdout == "[]\n"
