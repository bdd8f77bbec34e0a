"""Supervised fine-tuning of a LoRA adapter, the whole method from rows to the saved adapter.

The loss of one update is the mean over its targets of the negative log-likelihood,

    L = -1/N  sum over targets t of  log p(token t | all tokens before it),

with N the targets of all sequences of that update, however they are divided into micro-batches.
Only the adapter's weights are trained: W x becomes W x + (alpha / rank) B A x, with B zero at
first. AdamW follows the gradient after its norm was clipped to maxGradNorm.

TRL's SFTTrainer makes the updates. What it does otherwise, and we do ourselves:

- Rows are rendered, labelled and cut here (``targets.py``): TRL's own assistant mask needs a
  template with generation marks, and it trains an example that ends with a user.
- Labels are never found by the padding token, which many models use as the end of a turn.
- NaN losses are logged as they are; the trainer would show an average instead.
- The loss on the validation rows is always measured after the last update too.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers.utils.logging import disable_progress_bar
from trl import SFTConfig, SFTTrainer

from engine.client import Reporter
from engine.worker.trl import base, config, memory
from engine.worker.trl.callback import ReportSteps
from engine.worker.trl.errors import StoppedError
from engine.worker.trl.rows import ChatRow, Data
from engine.worker.trl.targets import Fit, TokenRow, prepare
from ledger.plan import Plan

WEIGHTS = "adapter_model.safetensors"
_PARTS = 20  # progress lines of one long stage


def train(
    plan: Plan, data: Data, reporter: Reporter, *, output: Path, stopping: Callable[[], bool]
) -> None:
    """Train the plan's adapter on ``data`` and leave it in ``output/model``.

    Raises:
        RefusalError: base model or rows are at fault.
        StoppedError: ``stopping`` said so; at most one update after that was made.
    """
    disable_progress_bar()
    reporter.stage("loading the tokenizer")
    tokenizer = base.load_tokenizer(plan.base_model)
    training, fit = _tokens(plan, tokenizer, data.training, reporter, stopping)
    validation, _ = (
        _tokens(plan, tokenizer, data.validation, reporter, stopping)
        if data.validation
        else ([], None)
    )
    _report_fit(reporter, fit)

    reporter.stage("loading the model")
    model = base.load_model(plan.base_model, plan.config)
    base.check_vocabulary(plan.base_model, model, training + validation)
    _go_on(stopping)

    reporter.stage("building the trainer")
    requested = config.sft_arguments(plan, folder=output, on_gpu=torch.cuda.is_available())
    adapter = config.lora_arguments(plan.config.lora)
    arguments = SFTConfig(**requested)

    def announce(adapted: Any, optimizer: Any, total_steps: int) -> None:
        reporter.engine_config(
            {**requested, "peft": adapter}, config.resolved(arguments, adapted, optimizer)
        )
        reporter.hparams(config.hyperparameters(plan, arguments, total_steps=total_steps))

    steps = ReportSteps(reporter, stopping=stopping, validates=bool(validation), announce=announce)
    trainer = MeasuringTrainer(
        model=model,
        args=arguments,
        train_dataset=_dataset(training),
        eval_dataset=_dataset(validation) if validation else None,
        processing_class=tokenizer,
        peft_config=LoraConfig(**adapter),
        callbacks=[steps],
    )
    trainer.train()
    _report_fit(reporter, fit, padding_share=trainer.padding_share())
    reporter.memory(memory.peak_bytes(), step=trainer.state.global_step)
    if steps.stopped:
        raise StoppedError

    reporter.stage("saving the model")
    folder = save(trainer.model, tokenizer, output / "model")
    reporter.model(
        folder,
        step=trainer.state.global_step,
        sha256=hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
        size_bytes=(folder / WEIGHTS).stat().st_size,
    )
    reporter.completed()


class MeasuringTrainer(SFTTrainer):  # type: ignore[misc]  # the library has no types
    """SFTTrainer that also counts how much of the trained batches was padding."""

    _real: torch.Tensor | int = 0  # on the device: adding there waits for nothing
    _cells = 0

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Count the micro-batch, then train on it."""
        mask = inputs["attention_mask"]
        self._real = self._real + mask.sum()
        self._cells += mask.numel()
        return super().training_step(model, inputs, *args, **kwargs)

    def padding_share(self) -> float | None:
        """The share of all trained batches that was padding; None before the first."""
        return 1 - int(self._real) / self._cells if self._cells else None


def save(model: Any, tokenizer: Any, folder: Path) -> Path:
    """Write adapter and tokenizer so that ``folder`` is either whole or absent."""
    partial = folder.with_name(f"{folder.name}.partial")
    model.save_pretrained(partial, save_embedding_layers=False)
    (partial / "README.md").unlink(missing_ok=True)  # the library's empty form
    tokenizer.save_pretrained(partial)
    for path in [*partial.iterdir(), partial]:
        _sync(path)
    partial.rename(folder)
    _sync(folder.parent)
    return folder


def _tokens(
    plan: Plan,
    tokenizer: Any,
    rows: list[ChatRow],
    reporter: Reporter,
    stopping: Callable[[], bool],
) -> tuple[list[TokenRow], Fit]:
    """The rows as tokens, with a progress line for every twentieth part of them."""
    every = max(1, len(rows) // _PARTS)

    def progress(done: int) -> None:
        if done % every == 0 or done == len(rows):
            _go_on(stopping)
            reporter.stage("tokenizing", completed=done, total=len(rows))

    return prepare(tokenizer, rows, max_seq_length=plan.config.max_seq_length, progress=progress)


def _report_fit(reporter: Reporter, fit: Fit, *, padding_share: float | None = None) -> None:
    reporter.data_fit(
        rows=fit.rows,
        reached=fit.reached,
        lost_end=fit.lost_end,
        dropped=fit.dropped,
        padding_share=padding_share,
    )


def _dataset(rows: list[TokenRow]) -> Dataset:
    return Dataset.from_dict(
        {
            "input_ids": [row.input_ids for row in rows],
            "labels": [row.labels for row in rows],
        }
    )


def _go_on(stopping: Callable[[], bool]) -> None:
    """Raise if the worker was asked to stop."""
    if stopping():
        raise StoppedError


def _sync(path: Path) -> None:
    """Wait until the disk has the file, or the folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
