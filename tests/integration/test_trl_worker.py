"""The TRL worker: rows, targets, refusals and real trainings of a tiny model on the CPU."""

import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from engine.client import Reporter
from engine.errors import RefusalError
from engine.prepare import base_model, settings
from engine.prepare.chat import ChatRow
from engine.prepare.tokenizing import Tokenizing
from tests.trl_runs import (
    QUESTIONS,
    chat,
    of_kind,
    said,
    train_here,
    updates,
    worker,
    write_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings.prepare_libraries()
    return Path(import_module("tests.tiny_model").make(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> Any:
    return import_module("transformers").AutoTokenizer.from_pretrained(tiny)


# One real process: 7 rows that fit and one that does not, 3 epochs of 2 updates.


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("trained")
    made = [chat(QUESTIONS[n % 4], f"It is on its way {n}.") for n in range(7)]
    too_long = chat("parcel " * 100, "No.")
    document = {
        "baseModel": str(tiny),
        "dataset": str(write_rows(folder / "rows.jsonl", [*made, too_long])),
        "validation": {
            "dataset": str(write_rows(folder / "kept.jsonl", made[:2])),
            "every": 4,
        },
        "config": {
            "learningRate": 0.01,
            "epochs": 3,
            "sequencesPerUpdate": 4,
            "maxSeqLength": 80,
            "maxGradNorm": 0.5,
            "lora": {"rank": 4, "alpha": 8},
        },
        "execution": {"microBatchSequences": 2},
    }
    code, lines = worker(folder, document)
    return SimpleNamespace(code=code, lines=lines, folder=folder)


def test_a_training_reports_every_update_once_and_in_order(trained: SimpleNamespace) -> None:
    """S84, C15: 7 rows by 4 are 2 updates an epoch, rounded up, the same number everywhere."""
    assert trained.code == 0
    assert [line["step"] for line in updates(trained.lines)] == [1, 2, 3, 4, 5, 6]
    assert [line["totalSteps"] for line in of_kind(trained.lines, "training")] == [6]
    assert of_kind(trained.lines, "hparams")[0]["values"]["totalSteps"] == 6
    assert trained.lines[-1]["kind"] == "completed"


def test_every_update_has_the_engines_fields_and_ours(trained: SimpleNamespace) -> None:
    """S84, S92: verbatim names, the same for every update."""
    names = {
        "loss",
        "grad_norm",
        "learning_rate",
        "entropy",
        "mean_token_accuracy",
        "num_tokens",
        "epoch",
        "grad_clip_factor",
        "adapter_norm",
        "update_ratio",
    }
    assert all(set(line["measured"]) == names for line in updates(trained.lines))
    assert all(line["stepSeconds"] > 0 for line in updates(trained.lines))


def test_the_clip_factor_follows_from_the_norm_before_clipping(trained: SimpleNamespace) -> None:
    """S87, S89."""
    for line in updates(trained.lines):
        norm = line["measured"]["grad_norm"]
        assert line["measured"]["grad_clip_factor"] == (0.5 / norm if norm > 0.5 else 1.0)
    assert any(line["measured"]["grad_norm"] > 0.5 for line in updates(trained.lines))


def test_the_last_adapter_norm_is_the_norm_of_the_saved_adapter(trained: SimpleNamespace) -> None:
    """S90, S12: after the step, over all trained weights."""
    (model,) = of_kind(trained.lines, "model")
    weights = Path(model["path"]) / "adapter_model.safetensors"
    norm = math.sqrt(
        sum(float(each.double().square().sum()) for each in load_file(weights).values())
    )

    assert updates(trained.lines)[-1]["measured"]["adapter_norm"] == pytest.approx(norm, rel=1e-6)
    assert (model["step"], model["sizeBytes"]) == (6, weights.stat().st_size)
    assert {path.name for path in weights.parent.iterdir()} >= {
        "adapter_config.json",
        "tokenizer.json",
    }


def test_the_first_update_of_a_warm_up_changes_nothing(trained: SimpleNamespace) -> None:
    """S91: its learning rate is 0, so the ratio is 0; later ones are not."""
    ratios = [line["measured"]["update_ratio"] for line in updates(trained.lines)]

    assert ratios[0] == 0.0
    assert all(ratio > 0 for ratio in ratios[1:])


def test_validation_is_measured_when_due_and_after_the_last_update(
    trained: SimpleNamespace,
) -> None:
    """S13: every 4 updates, and at 6."""
    found = of_kind(trained.lines, "validation")

    assert [line["step"] for line in found] == [4, 6]
    assert all(line["measured"]["eval_loss"] > 0 for line in found)


def test_the_closing_numbers_add_to_the_last_update(trained: SimpleNamespace) -> None:
    """S14, C34: further names of step 6, none of them said before."""
    *_, last, closing = of_kind(trained.lines, "step")
    losses = [line["measured"]["loss"] for line in updates(trained.lines)]

    assert closing["step"] == 6
    assert not set(closing["measured"]) & set(last["measured"])
    assert closing["measured"]["train_loss"] == pytest.approx(sum(losses) / 6)


def test_the_hyperparameters_have_every_default_that_was_applied(trained: SimpleNamespace) -> None:
    """S114, S115: what the plan left out too, before the first step; no value is left open."""
    (line,) = of_kind(trained.lines, "hparams")
    values = line["values"]

    stated = {"learningRate": 0.01, "epochs": 3, "maxGradNorm": 0.5, "lora.rank": 4}
    filled_in = {"seed": 0, "weightDecay": 0.0, "schedule.kind": "cosine", "lora.dropout": 0.0}
    resolved = {"totalSteps": 6, "warmupSteps": 1, "adamBeta1": 0.9, "adamBeta2": 0.999}
    divided = {"devices": 1, "microBatchSequences": 2, "accumulation": 2}
    expected = stated | filled_in | resolved | divided
    assert {name: values.get(name) for name in expected} == expected
    assert None not in values.values()
    kinds = [each["kind"] for each in trained.lines]
    assert kinds.index("hparams") < kinds.index("step")


def test_the_rows_are_counted_before_anything_is_dropped(trained: SimpleNamespace) -> None:
    """S46, S47, S48: the one long row reached the length, lost its end, and was dropped."""
    (counted,) = of_kind(trained.lines, "dataset")
    fit = of_kind(trained.lines, "dataFit")[-1]

    assert (counted["rows"], counted["validationRows"]) == (8, 2)
    assert (fit["rows"], fit["reached"], fit["lostEnd"], fit["dropped"]) == (8, 1, 1, 1)


def test_the_engines_configuration_is_kept_as_asked_and_as_resolved(
    trained: SimpleNamespace,
) -> None:
    """S20, S116, S117, S118, S120: what was asked for, in what it became, before the first step."""
    (line,) = of_kind(trained.lines, "engineConfig")
    requested, resolved = line["requested"], line["resolved"]

    assert resolved["learning_rate"] == requested["learning_rate"] == 0.01
    assert resolved["adam_beta1"] == 0.9
    targets = resolved["peft"]["target_modules"]
    assert targets == sorted(targets)
    assert len(targets) == 14  # 7 linear modules in each of 2 layers
    assert resolved["trainable_parameters"] == 4 * 2 * (
        (64 + 64) * 2 + (64 + 32) * 2 + (64 + 128) * 3
    )
    kinds = [each["kind"] for each in trained.lines]
    assert kinds.index("engineConfig") < kinds.index("training") < kinds.index("step")


def test_the_peak_of_the_process_is_reported_for_the_cpu(trained: SimpleNamespace) -> None:
    """S62: by device, measured and not made up."""
    peaks = [line["peakBytes"] for line in of_kind(trained.lines, "memory")]

    assert all(set(peak) == {"cpu:0"} for peak in peaks)
    assert peaks[-1]["cpu:0"] >= peaks[0]["cpu:0"] > 50_000_000


# Trainings inside this process.


def document(
    tiny: Path, folder: Path, config: dict[str, Any], *, micro: int, texts: list[str]
) -> dict[str, Any]:
    """A small plan, with its rows written beside the run."""
    made = [chat("Where?", text) for text in texts]
    return {
        "baseModel": str(tiny),
        "dataset": str(write_rows(folder / "rows.jsonl", made)),
        "config": {"lora": {"rank": 2}, "maxSeqLength": 96} | config,
        "execution": {"microBatchSequences": micro},
    }


def test_the_padding_share_is_that_of_the_trained_batches(
    tiny: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """S49: three rows in one batch, counted by hand."""
    texts = ["No.", "It is here.", "It is on its way."]
    examples = [ChatRow(chat("Where?", text)["messages"]) for text in texts]
    lengths = Tokenizing(tokenizer, 96)(examples).batch["tokens"].to_pylist()

    config = {"maxSteps": 2, "sequencesPerUpdate": 3}
    lines = train_here(tmp_path / "run", document(tiny, tmp_path, config, micro=3, texts=texts))

    share = of_kind(lines, "dataFit")[-1]["paddingShare"]
    assert share == pytest.approx(1 - sum(lengths) / (3 * max(lengths)))


def test_a_request_to_stop_ends_after_the_current_update(tiny: Path, tmp_path: Path) -> None:
    """Design, exit 143: no further update, nothing saved, no model, and not completed."""
    spool = tmp_path / "run" / "spool.jsonl"
    config = {"maxSteps": 5, "sequencesPerUpdate": 1}

    lines = train_here(
        tmp_path / "run",
        document(tiny, tmp_path, config, micro=1, texts=["No."]),
        requests=lambda: "stop" if '"step":3' in spool.read_text() else None,
    )

    assert [line["step"] for line in updates(lines)] == [1, 2, 3]
    assert not {line["kind"] for line in lines} & {"snapshot", "model", "completed"}
    assert all("train_loss" not in line["measured"] for line in of_kind(lines, "step"))


def test_a_loss_that_is_not_a_number_is_reported_as_it_is(tiny: Path, tmp_path: Path) -> None:
    """C28, C35: NaN stays NaN, and its gradient has no clip factor."""
    config = {
        "maxSteps": 3,
        "sequencesPerUpdate": 1,
        "learningRate": 1e30,
        "schedule": {"kind": "constant", "warmupRatio": 0},
    }

    lines = train_here(tmp_path / "run", document(tiny, tmp_path, config, micro=1, texts=["No."]))

    last = updates(lines)[-1]["measured"]
    assert last["loss"] == last["grad_norm"] == "NaN"
    assert "grad_clip_factor" not in last
    assert lines[-1]["kind"] == "completed"


def test_the_norms_of_a_hand_made_gradient(tmp_path: Path) -> None:
    """S87, S89, S90, S91: gradient (3, 4), maximum 1, rate 0.1, weights (1, 1) before."""
    torch = import_module("torch")
    transformers = import_module("transformers")
    callback = import_module("engine.worker.trl.callback")

    class Slope(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.ones(2))

        def forward(self, slope: Any) -> dict[str, Any]:
            return {"loss": (slope * self.weights).sum()}

    reports_steps = callback.ReportSteps(
        Reporter(tmp_path / "spool.jsonl"),
        validates=False,
        announce=lambda model, optimizer, total: None,  # noqa: ARG005
        order=import_module("engine.worker.trl.order").Order(1, 0, 1, 1),
        ranks=import_module("engine.worker.trl.ranks").Ranks(),
    )
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        max_steps=1,
        max_grad_norm=1.0,
        per_device_train_batch_size=1,
        logging_steps=1,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
    )
    data = [{"slope": torch.tensor([3.0, 4.0])}]
    transformers.Trainer(Slope(), arguments, train_dataset=data, callbacks=[reports_steps]).train()

    measured = updates(said(tmp_path / "spool.jsonl"))[0]["measured"]
    assert measured["grad_norm"] == pytest.approx(5.0)
    assert measured["grad_clip_factor"] == 0.2
    assert measured["adapter_norm"] == pytest.approx(math.hypot(0.94, 0.92), rel=1e-5)
    assert measured["update_ratio"] == pytest.approx(0.1 / math.sqrt(2), rel=1e-5)


# Refusals.


def test_a_folder_that_holds_no_model_is_refused_by_name(tmp_path: Path) -> None:
    """S66, S68: the folder and what belongs there, and no word of the library's inside."""
    settings.prepare_libraries()

    with pytest.raises(RefusalError) as refusal:
        base_model.load_tokenizer(str(tmp_path))

    assert str(tmp_path) in str(refusal.value)
    assert "Error" not in str(refusal.value)


def test_a_row_that_ends_with_a_user_is_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    """S66, S68, C01: exit 65, the sentence with file and row, and no step."""
    made = [chat("a", "1"), chat("b", "2", "c"), chat("d", "3")]
    document = {"baseModel": "none", "dataset": str(write_rows(tmp_path / "rows.jsonl", made))}

    code, lines = worker(tmp_path, document)

    assert code == 65
    assert lines[-1]["kind"] == "refused"
    assert lines[-1]["reason"] == (
        f"an example ends with a user message: row 2 of {tmp_path / 'rows.jsonl'}, "
        "messages[2].role is 'user' (1 of 3 rows); end every example with an assistant message"
    )
    assert not of_kind(lines, "step")
