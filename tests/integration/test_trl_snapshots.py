"""Snapshots of the engine ``trl``: saved as planned and as asked, restored bit for bit, or refused.

All trainings here are of one plan, that of ``tests.trl_runs``.
"""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from engine.worker.start import Start
from engine.worker.trl.errors import RefusalError
from tests.trl_runs import (
    SIGNALLED,
    Line,
    a_plan,
    adapter_of,
    after,
    asking,
    copy,
    numbers,
    of_kind,
    said,
    saving,
    tiny_model,
    train_here,
    tuned,
    updates,
    worker,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

BOTH = ["weights", "trainingState"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def document(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return a_plan(tiny, tmp_path_factory.mktemp("data"))


# A run that was never interrupted, with a snapshot of every update.


@pytest.fixture(scope="module")
def unbroken(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("unbroken")
    lines = train_here(folder, saving(document, saveEvery=1))
    return SimpleNamespace(folder=folder, lines=lines)


@pytest.fixture
def snapshot(unbroken: SimpleNamespace, tmp_path: Path) -> Path:
    """Its snapshot of update 5, to be used up."""
    return copy(unbroken.folder / "checkpoint-5", tmp_path)


# Two real processes: the first is killed after update 8, the second goes on from update 5.


@pytest.fixture(scope="module")
def killed(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("killed")
    program = ("-c", SIGNALLED.format(step=8, name="SIGKILL"))
    code, lines = worker(folder, saving(document, saveEvery=5), program=program)
    return SimpleNamespace(folder=folder / "output", code=code, lines=lines)


@pytest.fixture(scope="module")
def resumed(
    killed: SimpleNamespace, document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("resumed")
    (offered,) = of_kind(killed.lines, "snapshot")
    snapshot = copy(Path(offered["path"]), folder)
    code, lines = worker(folder, saving(document, saveEvery=5), snapshot=snapshot)
    return SimpleNamespace(folder=folder / "output", code=code, lines=lines)


def test_a_killed_run_goes_on_as_if_nobody_had_killed_it(
    unbroken: SimpleNamespace, killed: SimpleNamespace, resumed: SimpleNamespace
) -> None:
    """I5: every number and the adapter, bit for bit, with dropout and over two epochs' ends."""
    assert (killed.code, resumed.code) == (-9, 0)

    assert [line["step"] for line in updates(killed.lines)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [line["step"] for line in updates(resumed.lines)] == [6, 7, 8, 9, 10]
    assert numbers(resumed.lines) == after(5, unbroken.lines)
    assert adapter_of(resumed.lines) == adapter_of(unbroken.lines)
    assert [line["totalSteps"] for line in of_kind(resumed.lines, "training")] == [10]


def test_the_first_update_after_a_restore_is_the_one_after_the_saved_one(
    killed: SimpleNamespace, resumed: SimpleNamespace
) -> None:
    """C19: step 6 has the loss that it had in attempt 1; the optimizer itself counts 10."""
    torch = import_module("torch")
    first = {line["step"]: line["measured"] for line in updates(killed.lines)}
    again = {line["step"]: line["measured"] for line in updates(resumed.lines)}
    last = resumed.folder / "checkpoint-10" / "trainingState" / "optimizer.pt"

    optimizer = torch.load(last, weights_only=True)

    assert [again[step] for step in (6, 7, 8)] == [first[step] for step in (6, 7, 8)]
    assert first[6]["loss"] not in (first[5]["loss"], first[7]["loss"])
    assert {int(each["step"]) for each in optimizer["state"].values()} == {10}


def test_the_tokens_are_counted_on_over_a_restore(
    unbroken: SimpleNamespace, resumed: SimpleNamespace
) -> None:
    """S86: the engine counts from 0 again; the series, and the padding share, are of the run."""
    counted = [line["measured"]["num_tokens"] for line in updates(unbroken.lines)]
    again = [line["measured"]["num_tokens"] for line in updates(resumed.lines)]

    assert again == counted[5:]
    assert counted == sorted(counted)
    shares = [of_kind(each.lines, "dataFit")[-1]["paddingShare"] for each in (unbroken, resumed)]
    assert shares[0] == shares[1] > 0


def test_what_is_in_place_after_a_restore_is_compared_before_the_first_update(
    resumed: SimpleNamespace,
) -> None:
    """I5, C20: said once, and each part is what was saved."""
    kinds = [line["kind"] for line in resumed.lines]
    (line,) = of_kind(resumed.lines, "restoreCheck")

    assert (line["step"], line["verdict"]) == (5, "exact")
    assert line["parts"] == dict.fromkeys(
        ("adapter", "optimizer", "schedule", "rng", "dataPosition"), "exact"
    )
    assert kinds.index("training") < kinds.index("restoreCheck") < kinds.index("step")


@pytest.mark.parametrize("step", [2, 3, 9])
def test_it_does_not_matter_where_a_run_goes_on(
    unbroken: SimpleNamespace, document: dict[str, Any], tmp_path: Path, step: int
) -> None:
    """I5: at the end of an epoch; within one, straight after a validation; before the last."""
    snapshot = copy(unbroken.folder / f"checkpoint-{step}", tmp_path)

    lines = train_here(tmp_path / "run", document, snapshot=snapshot)

    assert numbers(lines) == after(step, unbroken.lines)
    assert adapter_of(lines) == adapter_of(unbroken.lines)
    assert of_kind(lines, "restoreCheck")[0]["verdict"] == "exact"


def test_a_run_that_died_after_its_last_update_makes_no_further_one(
    unbroken: SimpleNamespace, document: dict[str, Any], tmp_path: Path
) -> None:
    """C22: nothing is left but to register the model; no update is made twice, or too much."""
    snapshot = copy(unbroken.folder / "checkpoint-10", tmp_path)

    lines = train_here(tmp_path / "run", document, snapshot=snapshot)

    assert not {line["kind"] for line in lines} & {"step", "validation", "snapshot"}
    assert of_kind(lines, "restoreCheck")[0]["verdict"] == "exact"
    assert adapter_of(lines) == adapter_of(unbroken.lines)
    assert lines[-1]["kind"] == "completed"


# What is saved, and when.


def test_updates_are_saved_as_the_plan_says_and_the_last_one_whole(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I7, I11: every second update has weights, every fourth, and the last, can be resumed."""
    planned = saving(tuned(document, maxSteps=7), saveEvery=2, resumableSaveEvery=4)

    lines = train_here(tmp_path / "run", planned)

    snapshots = of_kind(lines, "snapshot")
    assert [(line["step"], line["artifacts"]) for line in snapshots] == [
        (2, ["weights"]),
        (4, BOTH),
        (6, ["weights"]),
        (7, BOTH),
    ]
    assert [line["epoch"] for line in snapshots] == [1.0, 2.0, 3.0, 3.5]
    held = [(Path(line["path"]) / "trainingState").is_dir() for line in snapshots]
    assert held == [False, True, False, True]


def test_a_snapshot_holds_what_other_programs_load_and_no_code(unbroken: SimpleNamespace) -> None:
    """I8, I9: adapter and tokenizer at its root; the rest loads without running anything."""
    torch = import_module("torch")
    folder = unbroken.folder / "checkpoint-10"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    state = {f"trainingState/{name}" for name in ("optimizer.pt", "scheduler.pt", "rng.pt")}

    assert {name for name in names if name.startswith("trainingState/")} == state | {
        f"trainingState/{name}" for name in ("trainer_state.json", "progress.json")
    }
    assert names - state >= {
        "adapter_model.safetensors",
        "adapter_config.json",
        "tokenizer.json",
        "chat_template.jinja",
        "writer.json",
    }
    assert "README.md" not in names
    assert all(torch.load(folder / name, weights_only=True) for name in state)
    adapter = (folder / "adapter_model.safetensors").read_bytes()
    assert hashlib.sha256(adapter).hexdigest() == adapter_of(unbroken.lines)


def test_a_snapshot_says_who_wrote_it(unbroken: SimpleNamespace, document: dict[str, Any]) -> None:
    """I8: engine, versions, base model and shape; the same in the line and in the snapshot."""
    line = of_kind(unbroken.lines, "snapshot")[-1]
    writer = line["writer"]

    assert (writer["engine"], writer["worldSize"]) == ("trl", 1)
    assert writer["engineVersion"] == writer["versions"]["trl"]
    assert writer["baseModel"] == document["baseModel"]
    assert writer["adapter"] == {
        "rank": 4,
        "alpha": 8.0,
        "targetModules": [
            "down_proj",
            "gate_proj",
            "k_proj",
            "o_proj",
            "q_proj",
            "up_proj",
            "v_proj",
        ],
        "tensors": 28,
        "parameters": 8192,
    }
    kept = Path(line["path"]) / "writer.json"
    assert json.loads(kept.read_bytes()) == writer


def test_a_snapshot_does_not_grow_with_the_run(unbroken: SimpleNamespace) -> None:
    """Cost: what was logged is in the ledger, and not again in every snapshot."""
    first, last = (
        (unbroken.folder / f"checkpoint-{step}" / "trainingState" / "trainer_state.json")
        for step in (1, 10)
    )

    assert json.loads(last.read_bytes())["log_history"] == []
    assert last.stat().st_size < first.stat().st_size + 50


def test_the_disk_refusing_a_snapshot_does_not_end_the_training(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I11: it is said, without internals, and the next one is saved."""
    planned = saving(tuned(document, maxSteps=4), saveEvery=2)
    (tmp_path / "checkpoint-2.partial").write_text("in the way")

    lines = train_here(tmp_path, planned)

    (failure,) = of_kind(lines, "saveFailed")
    assert failure["step"] == 2
    assert failure["reason"] == "the files could not be written: File exists"
    assert [line["step"] for line in of_kind(lines, "snapshot")] == [4]
    assert lines[-1]["kind"] == "completed"


@pytest.mark.usefixtures("tiny")
def test_a_full_disk_is_said_in_words() -> None:
    """I11: for people, without paths and numbers of errors."""
    reason = import_module("engine.worker.trl.saving").reason

    assert reason(OSError(errno.ENOSPC, "No space left on device", "/a/b")) == (
        "the disk that the snapshots are written to is full"
    )
    assert reason(OSError("of its own making")) == (
        "the files could not be written: the disk did not take them"
    )


# Requests.


def test_a_pause_saves_the_newest_update_and_the_run_goes_on_from_it_twice(
    unbroken: SimpleNamespace, document: dict[str, Any], tmp_path: Path
) -> None:
    """I4, I5, S13: each pause is of an update whose validation is due, which is made up for."""
    attempts: list[list[Line]] = []
    snapshot = None
    for number, step in enumerate((3, 6), start=1):
        folder = tmp_path / str(number)
        asked = asking(folder / "spool.jsonl", "pause", after=step)

        attempts.append(train_here(folder, document, requests=asked, snapshot=snapshot))

        (line,) = of_kind(attempts[-1], "snapshot")
        assert (line["step"], line["artifacts"]) == (step, BOTH)
        assert not {each["kind"] for each in attempts[-1]} & {"model", "completed"}
        snapshot = copy(Path(line["path"]), folder)
    attempts.append(train_here(tmp_path / "3", document, snapshot=snapshot))

    assert [[line["step"] for line in updates(lines)] for lines in attempts] == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8, 9, 10],
    ]
    validated = [line["step"] for lines in attempts for line in of_kind(lines, "validation")]
    assert validated == [3, 6, 9, 10]
    together = [line for lines in attempts for line in lines]
    assert numbers(together) == numbers(unbroken.lines)
    assert adapter_of(attempts[-1]) == adapter_of(unbroken.lines)


def test_a_pause_that_cannot_save_lets_the_training_go_on(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I4: said once, however long the request stands; the validation that was due is made."""
    (tmp_path / "checkpoint-3.partial").write_text("in the way")
    asked = asking(tmp_path / "spool.jsonl", "pause", after=3)

    lines = train_here(tmp_path, tuned(document, maxSteps=5), requests=asked)

    assert [line["step"] for line in of_kind(lines, "saveFailed")] == [3]
    assert [line["step"] for line in of_kind(lines, "validation")] == [3, 5]
    assert [line["step"] for line in of_kind(lines, "snapshot")] == [5]
    assert lines[-1]["kind"] == "completed"


def test_a_terminated_worker_ends_even_if_it_cannot_save(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I4: whoever sends SIGTERM does not wait."""
    (tmp_path / "checkpoint-2.partial").write_text("in the way")
    asked = asking(tmp_path / "spool.jsonl", "end", after=2)

    lines = train_here(tmp_path, document, requests=asked)

    assert [line["step"] for line in updates(lines)] == [1, 2]
    assert [line["step"] for line in of_kind(lines, "saveFailed")] == [2]
    assert not {line["kind"] for line in lines} & {"snapshot", "model", "completed"}


def test_a_terminated_worker_saves_its_newest_update_and_ends_with_143(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I4: SIGTERM to the real process, in the middle of its reports."""
    program = ("-c", SIGNALLED.format(step=4, name="SIGTERM"))

    code, lines = worker(tmp_path, document, program=program)

    assert code == 143
    assert [line["step"] for line in updates(lines)] == [1, 2, 3, 4]
    snapshots = of_kind(lines, "snapshot")
    assert [(line["step"], line["artifacts"]) for line in snapshots] == [(4, BOTH)]
    assert not of_kind(lines, "failed")


def test_a_request_before_the_first_update_ends_at_once_and_saves_nothing(
    document: dict[str, Any], snapshot: Path, tmp_path: Path
) -> None:
    """I4: while preparing, and in the last moment before the first update after a restore."""
    spool = tmp_path / "restored" / "spool.jsonl"

    early = train_here(tmp_path / "early", document, requests=lambda: "pause")
    late = train_here(
        tmp_path / "restored",
        document,
        requests=lambda: "pause" if '"training"' in spool.read_text() else None,
        snapshot=snapshot,
    )

    assert not {line["kind"] for line in early} & {"training", "step", "snapshot"}
    assert of_kind(late, "training")
    assert not {line["kind"] for line in late} & {"step", "snapshot"}


def test_a_save_that_was_due_serves_a_request_that_came_meanwhile(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I4: the very update is saved already, so nothing is saved twice and none is made more."""
    spool = tmp_path / "spool.jsonl"

    lines = train_here(
        tmp_path,
        saving(document, saveEvery=2),
        requests=lambda: "pause" if '"snapshot"' in spool.read_text() else None,
    )

    assert [line["step"] for line in updates(lines)] == [1, 2]
    assert [line["step"] for line in of_kind(lines, "snapshot")] == [2]
    assert not of_kind(lines, "completed")


# Refusals: by name, before anything is trained.


def refusal(snapshot: Path) -> str:
    """Why the snapshot is not gone on from."""
    restoring = import_module("engine.worker.trl.restoring")
    with pytest.raises(RefusalError) as refused:
        restoring.read(Start(snapshot, "resume"))
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("trainingState/rng.pt", "RNG state"),
        ("trainingState/optimizer.pt", "optimizer state"),
        ("trainingState/scheduler.pt", "learning-rate schedule"),
        ("trainingState/trainer_state.json", "trainer state"),
        ("trainingState/progress.json", "data position"),
        ("writer.json", "facts about its writer"),
        ("adapter_model.safetensors", "adapter"),
    ],
)
def test_a_part_that_is_missing_or_cut_short_is_refused_by_name(
    snapshot: Path, name: str, part: str
) -> None:
    """C20, S67, S68: the part, the file and what to do; nothing goes on without it."""
    file = snapshot / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    cut = refusal(snapshot)
    file.unlink()
    gone = refusal(snapshot)

    assert cut == (
        f"the snapshot to go on from is not whole: its {part} ({file.name}) cannot be read; "
        "take another snapshot"
    )
    assert gone == cut.replace("cannot be read", "is missing")


def with_numpy_object(state: dict[str, Any]) -> dict[str, Any]:
    return state | {"numpy": import_module("numpy").random.get_state()}


def without_torch(state: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in state.items() if name != "torch"}


def with_half_a_state(state: dict[str, Any]) -> dict[str, Any]:
    return state | {"torch": state["torch"][:100]}


@pytest.mark.parametrize("change", [with_numpy_object, without_torch, with_half_a_state])
def test_random_numbers_that_would_not_load_are_refused(
    snapshot: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """C20: an object of numpy's, a generator that is not there, a state of another size."""
    torch = import_module("torch")
    file = snapshot / "trainingState" / "rng.pt"
    torch.save(change(torch.load(file, weights_only=True)), file)

    assert "its RNG state (rng.pt) cannot be read" in refusal(snapshot)


def test_a_restore_without_its_random_numbers_trains_nothing(
    document: dict[str, Any], snapshot: Path, tmp_path: Path
) -> None:
    """C20, S68: never silently other streams."""
    (snapshot / "trainingState" / "rng.pt").unlink()

    with pytest.raises(RefusalError, match="RNG state"):
        train_here(tmp_path / "run", document, snapshot=snapshot)

    assert not of_kind(said(tmp_path / "run" / "spool.jsonl"), "training")


def test_weights_alone_cannot_be_gone_on_from(snapshot: Path) -> None:
    """I11."""
    shutil.rmtree(snapshot / "trainingState")

    assert "holds weights alone, without the training state" in refusal(snapshot)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"sequences_per_update": 8},
            "was saved with config.sequencesPerUpdate 8, and config.sequencesPerUpdate is 4 now",
        ),
        ({"micro_batch_sequences": 4}, "was saved with execution.microBatchSequences 4"),
        ({"seed": 7}, "was saved with config.seed 7"),
        ({"device": "cuda"}, "was saved with the device cuda, and the device is cpu now"),
        ({"dtype": "bfloat16"}, "was saved with config.model.dtype bfloat16"),
        ({"rows": "0" * 64}, "was saved while training on other rows"),
        ({"base_model_digest": "0" * 64, "seed": 7}, "was saved with the base model"),
    ],
)
def test_a_snapshot_of_another_training_is_refused_with_both_facts(
    snapshot: Path, change: dict[str, Any], words: str
) -> None:
    """C29: another batch, order, data; another base model before all else."""
    restoring = import_module("engine.worker.trl.restoring")
    file, start = snapshot / "writer.json", Start(snapshot, "resume")
    present = restoring.read(start).writer
    file.write_text(present.model_copy(update=change).model_dump_json(by_alias=True))

    with pytest.raises(RefusalError, match="the snapshot of update 5") as refused:
        restoring.refuse_unfit(restoring.read(start), present, None, scaler=None)

    assert words in str(refused.value)


def test_an_adapter_of_another_rank_is_refused_with_names_and_both_shapes(
    document: dict[str, Any], snapshot: Path, tmp_path: Path
) -> None:
    """C29, S67: three of 28 tensors by name, the others by their number."""
    changed = tuned(document, lora=document["config"]["lora"] | {"rank": 8})

    with pytest.raises(RefusalError) as refused:
        train_here(tmp_path / "run", changed, snapshot=snapshot)

    first = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"
    assert str(refused.value).startswith(
        "the adapter of the snapshot of update 5 does not fit this run; tensors of another shape: "
        f"{first} is [4, 128] and should be [8, 128], "
    )
    assert str(refused.value).endswith(" and 25 more")
    assert not of_kind(said(tmp_path / "run" / "spool.jsonl"), "training")


def test_tensors_that_are_missing_or_unexpected_are_refused_by_name(
    document: dict[str, Any], snapshot: Path, tmp_path: Path
) -> None:
    """S67, C29: the engine itself would leave out both without a word."""
    file = snapshot / "adapter_model.safetensors"
    tensors = load_file(file)
    name = min(tensors)
    tensors["another.weight"] = tensors.pop(name)
    save_file(tensors, file)

    with pytest.raises(RefusalError) as refused:
        train_here(tmp_path / "run", document, snapshot=snapshot)

    assert f"tensors that are missing: {name}" in str(refused.value)
    assert "tensors that are unexpected: another.weight" in str(refused.value)


@pytest.mark.parametrize("shape", [{"hidden_size": 32}, {"vocabulary": 388}])
def test_another_base_model_is_named_before_the_tensors_that_do_not_fit(
    document: dict[str, Any], snapshot: Path, tmp_path: Path, shape: dict[str, int]
) -> None:
    """C29: another hidden size; four more rows of the embedding."""
    other = import_module("tests.tiny_model").make(tmp_path / "other", **shape)

    with pytest.raises(RefusalError) as refused:
        train_here(tmp_path / "run", document | {"baseModel": str(other)}, snapshot=snapshot)

    assert str(refused.value) == (
        "the snapshot of update 5 was saved with the base model "
        f"{document['baseModel']}, and the base model {other} that is there now is another one or "
        "holds other weights; bring back the one that it was saved with"
    )


def test_rows_that_are_not_those_that_come_next_are_told(
    document: dict[str, Any], snapshot: Path, tmp_path: Path
) -> None:
    """C19: the check looks at the rows themselves and not only at a count."""
    file = snapshot / "trainingState" / "progress.json"
    progress = json.loads(file.read_bytes())
    progress["nextRows"].reverse()
    file.write_text(json.dumps(progress))

    lines = train_here(tmp_path / "run", tuned(document, maxSteps=6), snapshot=snapshot)

    (line,) = of_kind(lines, "restoreCheck")
    assert (line["verdict"], line["parts"]["dataPosition"]) == ("differs", "differs")
    assert line["parts"]["rng"] == "exact"
    assert "within" not in line


@pytest.mark.usefixtures("tiny")  # prepares the libraries
def test_a_difference_is_exact_rounding_or_real() -> None:
    """I5: bits first, then the largest difference."""
    torch = import_module("torch")
    comparing = import_module("engine.worker.trl.comparing")
    saved = {"w": [torch.tensor([1.0, float("nan")]), 3]}

    def verdict(present: Any) -> str:
        return str(comparing.verdict(comparing.difference(saved, present)))

    assert verdict({"w": (torch.tensor([1.0, float("nan")]), 3)}) == "exact"
    assert verdict({"w": [torch.tensor([1.0, 2.0]), 3]}) == "differs"
    assert verdict({"w": [saved["w"][0], 4]}) == "differs"
    assert verdict({}) == "differs"
    saved["w"][0] = torch.tensor([1.0, 2.0])
    assert verdict({"w": [torch.tensor([1.0, 2.0 + 5e-7]), 3]}) == "within"
    assert verdict({"w": [torch.tensor([[1.0, 2.0]]), 3]}) == "differs"
