"""Supervised fine-tuning of a LoRA adapter, the whole method from rows to the saved adapter.

The loss of one update is the mean over its targets of the negative log-likelihood,

    L = -1/N  sum over targets t of  log p(token t | all tokens before it),

with N the targets of all sequences of that update, however they are divided into micro-batches.
Only the adapter's weights are trained: W x becomes W x + (alpha / rank) B A x, with B zero at
first. AdamW follows the gradient after its norm was clipped to maxGradNorm.

TRL's SFTTrainer makes the updates. What it does otherwise, and we do ourselves:

- Rows are rendered, labelled and cut before (``engine/prepare``): TRL's own assistant mask needs
  a template with generation marks, and it trains an example that ends with a user.
- Labels are never found by the padding token, which many models use as the end of a turn.
- NaN losses are logged as they are; the trainer would show an average instead.
- The loss on the validation rows is always measured after the last update too, and measuring it
  draws no random number of the training's.
- Snapshots are written and checked here (``saving.py``, ``restoring.py``): an attempt that goes on
  from one makes the same updates, bit for bit on a CPU, as if it had made all those before itself.
- A branch begins from a snapshot of another run (``branching.py``): with its adapter alone, or
  where that run was, with a schedule of its own. The trainer counts on then, the ledger from 1.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers.utils.logging import disable_progress_bar
from trl import SFTConfig

from engine.client import Reporter
from engine.errors import StoppedError
from engine.prepare.fit import Fit
from engine.prepare.preparation import Prepared
from engine.prepare.tokens import TokenRows
from engine.worker.start import Start
from engine.worker.trl import (
    base,
    checks,
    config,
    facts,
    folders,
    restoring,
    rng,
    room,
    snapshots,
)
from engine.worker.trl.branching import BeginSchedule, TakeWeights
from engine.worker.trl.callback import ReportSteps
from engine.worker.trl.errors import NothingLeftError
from engine.worker.trl.facts import FRESH, Writer
from engine.worker.trl.order import Order
from engine.worker.trl.ranks import Ranks
from engine.worker.trl.requests import Requests
from engine.worker.trl.restoring import Restored, RestoreState, Weights
from engine.worker.trl.saving import Saver, SaveSnapshots
from engine.worker.trl.trainer import MeasuringTrainer
from ledger.plan import Plan


def train(  # noqa: PLR0913 (one for each part)
    plan: Plan,
    data: Prepared,
    reporter: Reporter,
    *,
    output: Path,
    requests: Requests,
    start: Start | None = None,
    ranks: Ranks | None = None,
) -> None:
    """Train the plan's adapter on ``data`` and leave it in ``output/model``.

    What the plan wants saved on the way goes to ``output`` too. With a ``start``, begin from that
    snapshot; its folder is used up. Where there are several ``ranks``, each of them calls this.

    Raises:
        RefusalError: base model or snapshot are at fault.
        StoppedError: ``requests`` said so; at most one update after that was made.
    """
    disable_progress_bar()
    ranks = ranks or Ranks()
    requests = ranks.agreed(requests)
    taken = None if start is None else restoring.read(start, rank=ranks.rank)
    begins = FRESH if taken is None else taken.begins
    training, validation = data.training, data.validation
    model, tokenizer = _loaded(plan, data, reporter)
    digest = base.digest(model)
    _go_on(requests)

    reporter.stage("building the trainer")
    requested = config.sft_arguments(
        plan,
        folder=output,
        on_gpu=torch.cuda.is_available(),
        base_step=begins.base_step,
        rank_seconds=ranks.patience_seconds,
    )
    adapter = config.lora_arguments(plan.config.lora)
    arguments = SFTConfig(**requested)
    order = _order(plan, len(training), arguments)

    def announce(adapted: Any, optimizer: Any, total_steps: int) -> None:
        reporter.engine_config(
            {**requested, "peft": adapter}, config.resolved(arguments, adapted, optimizer)
        )
        reporter.hparams(config.hyperparameters(plan, arguments, total_steps=total_steps))

    steps = ReportSteps(
        reporter,
        validates=validation is not None,
        announce=announce,
        begins=begins,
        order=order,
        ranks=ranks,
    )
    trainer = MeasuringTrainer(
        model=model,
        args=arguments,
        train_dataset=_dataset(training),
        eval_dataset=None if validation is None else _dataset(validation),
        processing_class=tokenizer,
        peft_config=LoraConfig(**adapter),
        callbacks=[steps],
        order=order,
        ranks=ranks,
        around_forward=steps.forward,
    )
    writer = facts.writer(
        plan, arguments, trainer.model, base_model_digest=digest, rows=training.digest()
    )
    beside = snapshots.companions(trainer.model, tokenizer, output) if ranks.leads else {}
    saves = SaveSnapshots(
        Saver(
            reporter,
            output,
            beside=beside,
            writer=writer,
            scaler=trainer.accelerator.scaler,
            ranks=ranks,
        ),
        plan.execution,
        requests=requests,
        progress=lambda owes: trainer.progress(loss_sum=steps.loss_sum, owes_validation=owes),
        begins=begins,
    )
    trainer.add_callback(saves)
    folder = _take_up(taken, trainer, reporter, writer=writer, rows=training)
    if ranks.leads:
        sizes = room.sizes(trainer.model.parameters(), beside.values())
        _check_start(trainer, plan, reporter, rows=training, sizes=sizes, made=begins.step)
    else:  # in the same way as rank 0, it would drop the same
        rng.begin(plan.config.seed, ranks.rank, begins.engine_step)
    ranks.meet()  # rank 0 comes from what it has checked alone
    with contextlib.suppress(NothingLeftError):
        trainer.train(resume_from_checkpoint=folder)
    _report_fit(reporter, data.fit, padding_share=trainer.padding_share())
    steps.report_last_memory(trainer.step)
    if saves.has_stopped:
        raise StoppedError

    if ranks.leads:
        _leave_model(trainer, reporter, output / "model", beside)
        reporter.completed()


def _order(plan: Plan, rows: int, arguments: SFTConfig) -> Order:
    """The order of so many rows, as the trainer divides them."""
    if arguments.world_size != plan.execution.devices:
        raise RuntimeError(
            f"{arguments.world_size} ranks train, and the plan asks for {plan.execution.devices}"
        )
    return Order(
        rows=rows,
        seed=plan.config.seed,
        per_update=plan.config.sequences_per_update,
        per_micro_batch=arguments.per_device_train_batch_size,
        ranks=arguments.world_size,
    )


def _loaded(plan: Plan, data: Prepared, reporter: Reporter) -> tuple[Any, Any]:
    """The base model and its tokenizer.

    Raises:
        RefusalError: they do not load, or do not fit each other or the rows.
    """
    reporter.stage("loading the model")
    model = base.load_model(plan.base_model, plan.config)
    _check_vocabulary(plan, data, model, reporter)
    return model, data.recipe.tokenizer


def _check_vocabulary(plan: Plan, data: Prepared, model: Any, reporter: Reporter) -> None:
    """Refuse tokens that the model has no embedding for.

    Raises:
        RefusalError: there is one among the rows, or the tokenizer would make one.
    """
    parts = [data.training, *([data.validation] if data.validation else [])]
    tokenizer = data.recipe.tokenizer
    if plan.execution.start_checks:
        checks.run(reporter, [lambda: checks.vocabulary(plan.base_model, tokenizer, model, parts)])
    base.check_vocabulary(plan.base_model, model, parts)


def _check_start(
    trainer: MeasuringTrainer,
    plan: Plan,
    reporter: Reporter,
    *,
    rows: TokenRows,
    sizes: room.Sizes,
    made: int,
) -> None:
    """Look whether the training can go well after ``made`` updates; its model, before the first.

    Raises:
        RefusalError: it cannot.
    """
    total, folder = room.total_steps(plan.config, len(rows)), Path(trainer.args.output_dir)
    if not plan.execution.start_checks or made >= total:
        return
    reporter.stage("checking the start")
    planned = room.planned_bytes(plan.execution, sizes, made=made, total=total)
    due = [lambda: room.check(folder, sizes, planned=planned)]
    if made == 0:
        due += checks.of_model(trainer, rows, dtype=plan.config.model.dtype, folder=folder)
    checks.run(reporter, due)


def _leave_model(
    trainer: MeasuringTrainer, reporter: Reporter, folder: Path, beside: Mapping[str, bytes]
) -> None:
    """Write the trained adapter into ``folder``, with the files ``beside`` it, and report it."""
    reporter.stage("saving the model")
    folders.write(folder, snapshots.weights(trainer.model, beside))
    weights = folder / snapshots.WEIGHTS
    reporter.model(
        folder,
        step=trainer.step,
        sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
        size_bytes=weights.stat().st_size,
    )


def _take_up(
    taken: Weights | None,
    trainer: MeasuringTrainer,
    reporter: Reporter,
    *,
    writer: Writer,
    rows: TokenRows,
) -> str | None:
    """Have the trainer begin with ``taken``; the folder that it restores itself from, if it does.

    Raises:
        RefusalError: it does not fit this training.
    """
    if taken is None:
        return None
    if not isinstance(taken, Restored):
        restoring.refuse_unfit_weights(taken, writer, trainer.model)
        trainer.add_callback(TakeWeights(reporter, taken, trainer.model))
        return None
    restoring.refuse_unfit(taken, writer, trainer.model, scaler=trainer.accelerator.scaler)
    ranks = trainer.ranks
    check = RestoreState(reporter, taken, rows=rows, order=trainer.order, ranks=ranks)
    trainer.add_callback(check)
    if taken.begins_branch:
        trainer.add_callback(BeginSchedule(lambda: trainer.schedule_at_start))
    trainer.go_on_from(taken.begins, look=check.check_rows)
    ranks.meet()  # all have read the folder
    found = taken.for_the_trainer() if ranks.leads else str(taken.folder)
    ranks.meet()
    return found


def _report_fit(reporter: Reporter, fit: Fit, *, padding_share: float | None) -> None:
    reporter.data_fit(
        rows=fit.rows,
        reached=fit.reached,
        lost_end=fit.lost_end,
        dropped=fit.dropped,
        padding_share=padding_share,
    )


def _dataset(rows: TokenRows) -> Dataset:
    return Dataset(rows.table.select(["input_ids", "labels"]))


def _go_on(requests: Requests) -> None:
    """Raise if the worker was asked to stop."""
    if requests():
        raise StoppedError
