"""Branches of the engine ``trl``: a run that begins from a snapshot of another one.

All trainings here are of the plan of ``tests.trl_runs``. The parent trains 10 updates at a constant
rate and saves each of them; its second epoch begins with update 3, its third with update 5.
"""

import json
import math
import os
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.worker.start import Start
from engine.worker.trl.errors import RefusalError
from tests.trl_runs import (
    QUESTIONS,
    SIGNALLED,
    Line,
    a_plan,
    adapter_of,
    after,
    asking,
    chat,
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
    write_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

CONSTANT = {"kind": "constant", "warmupRatio": 0}
COSINE = {"kind": "cosine", "warmupRatio": 0.2}
COUNTED = {"num_tokens", "engine_step"}  # each run counts for itself


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def document(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The parent's plan."""
    planned = a_plan(tiny, tmp_path_factory.mktemp("data"))
    return saving(tuned(planned, schedule=CONSTANT), saveEvery=1)


# What trainings here saw and had, from micro-batch to micro-batch.


@pytest.fixture(scope="module")
def seen() -> Any:
    """The newest training: its ``batches``, and what was ``there`` before the first of them."""
    sft = import_module("engine.worker.trl.sft")
    rng = import_module("engine.worker.trl.rng")
    found = SimpleNamespace(batches=[], there={})

    class Watched(sft.MeasuringTrainer):  # type: ignore[name-defined,misc]
        def train(self, *args: Any, **kwargs: Any) -> Any:
            found.batches, found.there = [], {}
            return super().train(*args, **kwargs)

        def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not found.batches:
                found.there = {
                    "engine step": self.state.global_step,
                    "optimizer": dict(self.optimizer.state_dict()["state"]),
                    "schedule": self.lr_scheduler.state_dict(),
                    "rate": [group["lr"] for group in self.optimizer.param_groups],
                    "rng": rng.state(),
                    "adapters": list(model.peft_config),
                    "layers": sum(
                        name.endswith("lora_A.default") for name, _ in model.named_modules()
                    ),
                }
            found.batches.append(inputs["input_ids"].tolist())
            return super().training_step(model, inputs, *args, **kwargs)

    patch = pytest.MonkeyPatch()
    patch.setattr(sft, "MeasuringTrainer", Watched)
    yield found
    patch.undo()


@pytest.fixture(scope="module")
def parent(
    document: dict[str, Any], seen: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("parent")
    lines = train_here(folder, document)
    return SimpleNamespace(folder=folder, lines=lines, batches=seen.batches)


@pytest.fixture(scope="module")
def child(
    document: dict[str, Any],
    parent: SimpleNamespace,
    seen: SimpleNamespace,
    tmp_path_factory: pytest.TempPathFactory,
) -> SimpleNamespace:
    """A branch of training state from update 5, 5 updates at another rate, and falling."""
    folder = tmp_path_factory.mktemp("child")
    lines = train_here(
        folder / "run",
        tuned(document, learningRate=0.004, maxSteps=5, schedule=COSINE),
        snapshot=copy(parent.folder / "checkpoint-5", folder),
        branch="trainingState",
    )
    return SimpleNamespace(folder=folder / "run", lines=lines, batches=seen.batches)


@pytest.fixture
def origin(parent: SimpleNamespace, tmp_path: Path) -> Path:
    """The parent's snapshot of update 5, to be used up."""
    return copy(parent.folder / "checkpoint-5", tmp_path)


def measured(lines: list[Line]) -> list[dict[str, Any]]:
    """The numbers of each update, without those that each run counts for itself."""
    return [
        {name: each for name, each in line["measured"].items() if name not in COUNTED}
        for line in updates(lines)
    ]


def each(name: str, lines: list[Line]) -> list[float]:
    return [line["measured"][name] for line in updates(lines)]


# Training state: go on where the parent was, with a schedule of its own.


@pytest.mark.parametrize("step", [3, 4])
def test_a_branch_with_the_parents_rate_repeats_what_the_parent_did_next(
    parent: SimpleNamespace,
    document: dict[str, Any],
    seen: SimpleNamespace,
    tmp_path: Path,
    step: int,
) -> None:
    """S144: bit for bit, with dropout, within an epoch and where one begins; the same rows."""
    left = 10 - step

    lines = train_here(
        tmp_path / "run",
        tuned(document, maxSteps=left),
        snapshot=copy(parent.folder / f"checkpoint-{step}", tmp_path),
        branch="trainingState",
    )

    assert measured(lines) == measured(parent.lines)[step:]
    assert seen.batches == parent.batches[2 * step :]
    assert adapter_of(lines) == adapter_of(parent.lines)


def test_a_branch_counts_its_own_updates_from_one(child: SimpleNamespace) -> None:
    """S28, S124, C22: 5 more, not 5 in all and not 10; the engine's count is beside each."""
    assert [line["totalSteps"] for line in of_kind(child.lines, "training")] == [5]
    assert of_kind(child.lines, "hparams")[0]["values"]["totalSteps"] == 5
    assert [line["step"] for line in updates(child.lines)] == [1, 2, 3, 4, 5]
    assert each("engine_step", child.lines) == [6, 7, 8, 9, 10]
    assert [line["step"] for line in of_kind(child.lines, "snapshot")] == [1, 2, 3, 4, 5]
    assert [line["step"] for line in of_kind(child.lines, "validation")] == [3, 5]
    assert of_kind(child.lines, "model")[0]["step"] == 5
    assert max(line.get("step", 0) for line in child.lines) == 5


def test_a_branch_counts_its_own_work(parent: SimpleNamespace, child: SimpleNamespace) -> None:
    """S138: tokens and mean loss are not the parent's; how often rows were seen goes on."""
    before = each("num_tokens", parent.lines)
    closing = of_kind(child.lines, "step")[-1]["measured"]

    assert each("num_tokens", child.lines) == [count - before[4] for count in before[5:]]
    assert closing["train_loss"] == pytest.approx(sum(each("loss", child.lines)) / 5)
    whole = of_kind(parent.lines, "step")[-1]["measured"]
    assert 0 < closing["total_flos"] < whole["total_flos"]
    assert each("epoch", child.lines) == each("epoch", parent.lines)[5:]


def test_the_next_rows_of_a_branch_are_those_that_would_have_come(
    parent: SimpleNamespace, child: SimpleNamespace
) -> None:
    """S144: and the first update finds the parent's weights, gradients and random numbers."""
    assert child.batches == parent.batches[10:]
    for name in ("loss", "grad_norm", "entropy"):
        assert each(name, child.lines)[0] == each(name, parent.lines)[5]


def test_the_schedule_of_a_branch_spans_its_own_updates_at_its_own_rate(
    child: SimpleNamespace,
) -> None:
    """S145: a warm-up of one update, and half a cosine over the four others."""
    falling = [0.004 * 0.5 * (1 + math.cos(math.pi * step / 4)) for step in range(4)]

    assert each("learning_rate", child.lines) == pytest.approx([0.0, *falling], rel=1e-12)


def test_the_rate_of_a_schedule_is_the_rate_of_its_updates(
    parent: SimpleNamespace, document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """S145: an optimizer that goes on would make the first update at the parent's last rate."""
    lines = train_here(
        tmp_path / "run",
        tuned(document, learningRate=0.001, maxSteps=1),
        snapshot=origin,
        branch="trainingState",
    )

    (ratio,), before = each("update_ratio", lines), each("update_ratio", parent.lines)[5]
    assert ratio == pytest.approx(before / 10, rel=1e-3)


def test_what_a_branch_restored_is_compared_before_its_first_update(
    child: SimpleNamespace,
) -> None:
    """S144: said once, as of step 0; the schedule is not the parent's, so it is not compared."""
    kinds = [line["kind"] for line in child.lines]
    (line,) = of_kind(child.lines, "restoreCheck")

    assert (line["step"], line["verdict"]) == (0, "exact")
    assert line["parts"] == dict.fromkeys(("adapter", "optimizer", "dataPosition", "rng"), "exact")
    assert kinds.index("training") < kinds.index("restoreCheck") < kinds.index("step")


def test_a_killed_branch_goes_on_as_if_nobody_had_killed_it(
    parent: SimpleNamespace, child: SimpleNamespace, document: dict[str, Any], tmp_path: Path
) -> None:
    """I5, S145: bit for bit, over the same budget again; the first attempt is a real process."""
    planned = saving(tuned(document, learningRate=0.004, maxSteps=5, schedule=COSINE), saveEvery=2)
    code, before = worker(
        tmp_path,
        planned,
        snapshot=copy(parent.folder / "checkpoint-5", tmp_path),
        branch="trainingState",
        program=("-c", SIGNALLED.format(step=3, name="SIGKILL")),
    )
    (saved,) = of_kind(before, "snapshot")

    again = train_here(tmp_path / "again", planned, snapshot=Path(saved["path"]))

    assert (code, saved["step"]) == (-9, 2)
    assert [line["step"] for line in updates(before)] == [1, 2, 3]
    assert [line["step"] for line in updates(again)] == [3, 4, 5]
    assert [line["totalSteps"] for line in of_kind(again, "training")] == [5]
    assert [line["step"] for line in of_kind(again, "snapshot")] == [4, 5]
    assert numbers(again) == after(2, child.lines)
    assert adapter_of(again) == adapter_of(child.lines)
    (check,) = of_kind(again, "restoreCheck")
    assert (check["step"], check["verdict"], check["parts"]["schedule"]) == (2, "exact", "exact")


def test_a_branch_of_a_branch_goes_on_from_there(
    child: SimpleNamespace, document: dict[str, Any], seen: SimpleNamespace, tmp_path: Path
) -> None:
    """S144: rows and random numbers of update 9 of the engine, reported as update 1."""
    lines = train_here(
        tmp_path / "run",
        tuned(document, learningRate=0.002, maxSteps=2),
        snapshot=copy(child.folder / "checkpoint-3", tmp_path),
        branch="trainingState",
    )

    assert [line["step"] for line in updates(lines)] == [1, 2]
    assert each("engine_step", lines) == [9, 10]
    assert each("learning_rate", lines) == [0.002, 0.002]
    assert seen.batches == child.batches[6:]
    for name in ("loss", "grad_norm", "entropy"):
        assert each(name, lines)[0] == each(name, child.lines)[3]


def test_a_branch_that_was_paused_makes_up_for_the_validation_that_was_due(
    child: SimpleNamespace, document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """I4, S13: of its own update 3, and with the numbers that it would have had."""
    planned = tuned(document, learningRate=0.004, maxSteps=5, schedule=COSINE)
    planned = saving(planned, saveEvery=20)
    asked = asking(tmp_path / "run" / "spool.jsonl", "pause", after=3)
    first = train_here(
        tmp_path / "run", planned, requests=asked, snapshot=origin, branch="trainingState"
    )
    (saved,) = of_kind(first, "snapshot")

    again = train_here(tmp_path / "again", planned, snapshot=Path(saved["path"]))

    assert [saved["step"], *(line["step"] for line in updates(again))] == [3, 4, 5]
    assert [line["step"] for line in of_kind(again, "validation")] == [3, 5]
    assert numbers(first + again) == numbers(child.lines)


def test_a_branch_that_died_after_its_last_update_makes_no_further_one(
    child: SimpleNamespace, document: dict[str, Any], tmp_path: Path
) -> None:
    """C22: nothing is left but to register the model, as of its own last step."""
    planned = tuned(document, learningRate=0.004, maxSteps=5, schedule=COSINE)

    lines = train_here(
        tmp_path / "run", planned, snapshot=copy(child.folder / "checkpoint-5", tmp_path)
    )

    assert not {line["kind"] for line in lines} & {"step", "validation", "snapshot"}
    assert of_kind(lines, "restoreCheck")[0]["step"] == 5
    assert of_kind(lines, "model")[0]["step"] == 5
    assert adapter_of(lines) == adapter_of(child.lines)


def test_a_request_before_the_first_update_of_a_branch_ends_it_at_once(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """I4: nothing was made, so nothing is saved."""
    spool = tmp_path / "run" / "spool.jsonl"

    lines = train_here(
        tmp_path / "run",
        document,
        requests=lambda: "pause" if '"training"' in spool.read_text() else None,
        snapshot=origin,
        branch="trainingState",
    )

    assert of_kind(lines, "training")
    assert not {line["kind"] for line in lines} & {"step", "snapshot"}


# Weights: the adapter, and nothing else.


@pytest.fixture(scope="module")
def inherited(
    document: dict[str, Any],
    parent: SimpleNamespace,
    seen: SimpleNamespace,
    tmp_path_factory: pytest.TempPathFactory,
) -> SimpleNamespace:
    """A branch of weights from update 10, from a snapshot without training state."""
    folder = tmp_path_factory.mktemp("inherited")
    origin = copy(parent.folder / "checkpoint-10", folder)
    shutil.rmtree(origin / "trainingState")
    lines = train_here(
        folder / "run",
        tuned(document, maxSteps=3, schedule=COSINE),
        snapshot=origin,
        branch="weights",
    )
    return SimpleNamespace(lines=lines, **vars(seen))


def test_a_branch_of_weights_begins_with_the_parents_adapter(
    parent: SimpleNamespace, inherited: SimpleNamespace
) -> None:
    """C31: the rate of its first update is 0, so its norm then is the one before it."""
    assert each("learning_rate", inherited.lines)[0] == 0.0
    norm, parents = each("adapter_norm", inherited.lines)[0], each("adapter_norm", parent.lines)
    assert norm == pytest.approx(parents[-1], rel=1e-6)
    assert abs(norm - parents[0]) > 0.01

    loss, losses = each("loss", inherited.lines)[0], each("loss", parent.lines)
    assert abs(loss - losses[-1]) < 0.3 * (losses[0] - losses[-1])


def test_a_branch_of_weights_says_that_they_are_in_place(inherited: SimpleNamespace) -> None:
    """C31: said once, before the first update."""
    kinds = [line["kind"] for line in inherited.lines]
    (line,) = of_kind(inherited.lines, "restoreCheck")

    assert (line["step"], line["verdict"], line["parts"]) == (0, "exact", {"adapter": "exact"})
    assert kinds.index("restoreCheck") < kinds.index("step")


def test_a_branch_of_weights_counts_like_a_fresh_run(inherited: SimpleNamespace) -> None:
    """S143, C22: its own updates, and the engine counts no others."""
    assert [line["step"] for line in updates(inherited.lines)] == [1, 2, 3]
    assert not any("engine_step" in line["measured"] for line in updates(inherited.lines))
    assert [line["totalSteps"] for line in of_kind(inherited.lines, "training")] == [3]
    assert of_kind(inherited.lines, "snapshot")[-1]["step"] == 3


def test_all_but_the_adapter_is_as_in_a_fresh_run(
    inherited: SimpleNamespace, document: dict[str, Any], seen: SimpleNamespace, tmp_path: Path
) -> None:
    """S143, C31: optimizer, schedule, random numbers, data position, engine step; one adapter."""
    difference = import_module("engine.worker.trl.comparing").difference

    fresh = train_here(tmp_path / "run", tuned(document, maxSteps=3, schedule=COSINE))

    assert inherited.there["optimizer"] == {}
    assert inherited.there["schedule"] == seen.there["schedule"]
    assert inherited.there["schedule"]["last_epoch"] == 0
    assert inherited.there["rate"] == seen.there["rate"] == [0.0, 0.0]
    assert difference(inherited.there["rng"], seen.there["rng"]) == 0
    assert inherited.batches == seen.batches
    assert inherited.there["engine step"] == 0
    assert inherited.there["adapters"] == ["default"]
    assert inherited.there["layers"] == 14  # 7 linear modules in each of 2 layers
    assert each("learning_rate", inherited.lines) == each("learning_rate", fresh)


def trained_afresh(document: dict[str, Any], adapter: Path, folder: Path) -> list[dict[str, Any]]:
    """What TRL logs when it trains ``adapter`` by itself, as anybody would."""
    config = import_module("engine.worker.trl.config")
    preparation = import_module("engine.prepare.preparation")
    transformers, trl = import_module("transformers"), import_module("trl")
    plan = import_module("ledger.plan").parse(document)

    tokenizer = transformers.AutoTokenizer.from_pretrained(plan.base_model)
    nobody = import_module("engine.client").Reporter(os.devnull)
    means = preparation.Means(nobody, cache=None, go_on=lambda: None)
    kept = preparation.prepare(plan, means).training
    arguments = config.sft_arguments(plan, folder=folder, on_gpu=False)
    trainer = trl.SFTTrainer(
        model=import_module("peft").PeftModel.from_pretrained(
            transformers.AutoModelForCausalLM.from_pretrained(plan.base_model),
            adapter,
            is_trainable=True,
        ),
        args=trl.SFTConfig(**arguments | {"eval_strategy": "no", "eval_steps": None}),
        train_dataset=import_module("datasets").Dataset.from_list([row._asdict() for row in kept]),
        processing_class=tokenizer,
    )
    trainer.train()
    return [logs for logs in trainer.state.log_history if "loss" in logs]


def test_a_branch_of_weights_trains_as_anybody_would_from_that_adapter(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """S143, C31: two updates at a rate above 0, with dropout, bit for bit."""
    planned = tuned(document, maxSteps=2)
    expected = trained_afresh(planned, origin, tmp_path)

    lines = train_here(tmp_path / "run", planned, snapshot=origin, branch="weights")

    for name in ("loss", "grad_norm", "learning_rate", "entropy", "num_tokens"):
        assert each(name, lines) == [logs[name] for logs in expected]


def test_a_branch_of_weights_may_train_other_rows_in_other_batches(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """S143: nothing of the parent's training has to fit, as long as the adapter does."""
    other = write_rows(tmp_path / "rows.jsonl", [chat(QUESTIONS[0], "No.")] * 3)
    planned = tuned(document, sequencesPerUpdate=1, seed=7, maxSteps=1, maxSeqLength=64)
    planned |= {"dataset": str(other), "execution": {"microBatchSequences": 1}}

    lines = train_here(tmp_path / "run", planned, snapshot=origin, branch="weights")

    assert [line["step"] for line in updates(lines)] == [1]
    assert lines[-1]["kind"] == "completed"


def test_a_killed_branch_of_weights_goes_on_like_any_run(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """I5: from its own snapshot, bit for bit."""
    planned = tuned(document, maxSteps=3)
    whole = train_here(tmp_path / "run", planned, snapshot=origin, branch="weights")

    again = train_here(
        tmp_path / "again",
        planned,
        snapshot=copy(tmp_path / "run" / "checkpoint-1", tmp_path / "run"),
    )

    assert numbers(again) == after(1, whole)
    assert adapter_of(again) == adapter_of(whole)


# Refusals: by name, before anything is trained.


def refusal(folder: Path, planned: dict[str, Any], origin: Path, branch: Any) -> str:
    """Why no branch begins."""
    with pytest.raises(RefusalError) as refused:
        train_here(folder, planned, snapshot=origin, branch=branch)
    assert not of_kind(said(folder / "spool.jsonl"), "training")
    return str(refused.value)


def test_weights_alone_are_not_enough_for_a_branch_of_training_state(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """I11, S144."""
    shutil.rmtree(origin / "trainingState")

    assert "holds weights alone, without the training state; take a snapshot that holds both" in (
        refusal(tmp_path / "run", document, origin, "trainingState")
    )


@pytest.mark.parametrize(
    ("name", "part"),
    [("adapter_model.safetensors", "adapter"), ("writer.json", "facts about its writer")],
)
def test_weights_that_are_not_whole_are_refused_by_name(origin: Path, name: str, part: str) -> None:
    """S67, C20: what a branch of weights needs, and nothing else."""
    restoring = import_module("engine.worker.trl.restoring")
    shutil.rmtree(origin / "trainingState")
    (origin / name).unlink()

    with pytest.raises(RefusalError) as refused:
        restoring.read(Start(origin, "weights"))

    assert str(refused.value) == (
        f"the snapshot to go on from is not whole: its {part} ({name}) is missing; "
        "take another snapshot"
    )


@pytest.mark.parametrize(
    ("lora", "words"),
    [
        ({"rank": 8}, "does not fit this run; tensors of another shape: base_model."),
        ({"targetModules": ["q_proj"]}, "does not fit this run; tensors that are unexpected: "),
        ({"alpha": 16}, "with config.lora.alpha 8.0, and config.lora.alpha is 16.0 now"),
    ],
)
def test_an_adapter_of_another_shape_begins_no_branch(
    document: dict[str, Any], origin: Path, tmp_path: Path, lora: dict[str, Any], words: str
) -> None:
    """C29, S67: nor one that would be scaled otherwise, which no tensor shows."""
    planned = tuned(document, lora=document["config"]["lora"] | lora)

    found = refusal(tmp_path / "run", planned, origin, "weights")

    assert "the snapshot that this branch begins from" in found
    assert words in found


@pytest.mark.parametrize("branch", ["weights", "trainingState"])
def test_another_base_model_begins_no_branch(
    document: dict[str, Any], origin: Path, tmp_path: Path, branch: str
) -> None:
    """C29: named before the tensors that do not fit."""
    other = import_module("tests.tiny_model").make(tmp_path / "other", hidden_size=32)

    found = refusal(tmp_path / "run", document | {"baseModel": str(other)}, origin, branch)

    assert f"was saved with the base model {document['baseModel']}, and the base model" in found


def test_other_rows_begin_no_branch_of_training_state(
    document: dict[str, Any], origin: Path, tmp_path: Path
) -> None:
    """S144, S149: there would be no next batch."""
    rows = [json.loads(line) for line in Path(document["dataset"]).read_text().splitlines()]
    other = write_rows(tmp_path / "rows.jsonl", rows[:-1])

    found = refusal(tmp_path / "run", document | {"dataset": str(other)}, origin, "trainingState")

    assert found.startswith("the snapshot of update 5 was saved while training on other rows")
