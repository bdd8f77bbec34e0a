"""Start checks: whether a training can go well, seen before its first update costs anything.

Each finds one number and holds it against two limits. They change nothing that trains: no random
number of the training is drawn, no gradient is made, and every module is left in its mode. An
attempt that goes on from a snapshot of its own run makes the cheap ones only, since the model was
looked at by the first.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from safetensors.torch import load_file

from engine.client import Reporter
from engine.errors import RefusalError
from engine.prepare.tokens import TokenRows
from engine.worker.trl import folders, rng, snapshots
from engine.worker.trl.comparing import difference

# A model that knows nothing finds all words of its vocabulary as likely as each other, and loses
# ln(vocabulary) on each; one that was mixed up with another's tokenizer is surer of what is wrong,
# and loses more. Judgements, as shares of that.
WARN_LOSS, REFUSE_LOSS = 1.1, 1.5
# Nats between a row's loss in a batch and alone, by how the model is held. Rounding in float32
# makes less than 1e-6 of them (SmolLM2, measured 2026-11-30). Judgements as well.
WARN_APART = {"float32": 1e-4, "float16": 0.05, "bfloat16": 0.05}
REFUSE_APART = {"float32": 1e-2, "float16": 0.5, "bfloat16": 0.5}
MOST_ROWS = 4  # that go forward


@dataclass(frozen=True)
class Found:
    """What a check found, and how far it may be; below ``warn``, ``refuse`` means less is worse."""

    name: str
    value: float
    warn: float
    refuse: float
    unit: str
    advice: str  # what to do about it where it is refused


Check = Callable[[], Found]


def run(reporter: Reporter, checks: Iterable[Check]) -> None:
    """Make each check and report it.

    Raises:
        RefusalError: a value is beyond the limit; the checks after it are not made.
    """
    for check in checks:
        begins = time.monotonic()
        found = check()
        verdict = reporter.start_check(
            found.name,
            found.value,
            warn=found.warn,
            refuse=found.refuse,
            unit=found.unit,
            seconds=time.monotonic() - begins,
        )
        if verdict == "refused":
            raise RefusalError(sentence(found))


def sentence(found: Found) -> str:
    """Why a training does not begin: check, value, limit, and what to do."""
    return (
        f"the start check {found.name} found {_said(found.value)} {found.unit}, and its limit is "
        f"{_said(found.refuse)}; {found.advice}"
    )


def vocabulary(name: str, tokenizer: Any, model: Any, parts: Iterable[TokenRows]) -> Found:
    """Whether the base model ``name`` has an embedding for every token of tokenizer and rows."""
    known = model.get_input_embeddings().num_embeddings
    highest = max([*tokenizer.get_vocab().values(), *(rows.highest() for rows in parts)])
    return Found(
        "vocabulary",
        max(0, highest + 1 - known),
        warn=0,
        refuse=0,
        unit="tokens without an embedding",
        advice=f"the tokenizer in {name} is of another model than its weights, which know {known} "
        "tokens; copy the folder again, whole",
    )


def save_and_load(model: Any, folder: Path) -> Found:
    """Whether the adapter comes back from the disk of ``folder`` as it was written."""
    tensors = snapshots.adapter_tensors(model)
    with TemporaryDirectory(dir=folder, suffix=folders.PARTIAL) as made:
        try:
            written = folders.write(Path(made) / "adapter", snapshots.weights(model, {}))
            read = load_file(written / snapshots.WEIGHTS)
        except OSError:
            read = {}
    lost = [name for name in tensors if difference(tensors[name], read.get(name)) > 0]
    return Found(
        "save and load",
        len(lost),
        warn=0,
        refuse=0,
        unit="tensors that did not come back",
        advice=f"look after the disk of {folder}",
    )


def of_model(trainer: Any, rows: TokenRows, *, dtype: str, folder: Path) -> list[Check]:
    """What a model that nobody looked at yet is checked for."""
    forward = Forward(trainer, rows, dtype=dtype)
    return [lambda: save_and_load(trainer.model, folder), forward.loss, forward.together]


class Forward:
    """Some rows of a training in its model, as the training itself takes them."""

    def __init__(self, trainer: Any, rows: TokenRows, *, dtype: str) -> None:
        """Take as many rows as a micro-batch, but 2 at least, since one alone has no padding."""
        self._trainer = trainer
        per_micro_batch = trainer.args.per_device_train_batch_size
        self._rows = some_rows(rows, min(MOST_ROWS, max(2, per_micro_batch)))
        self._dtype = dtype

    def loss(self) -> Found:
        """Whether the model knows more than nothing of what it is trained on."""
        words = self._trainer.model.get_input_embeddings().num_embeddings
        losses, targets = zip(*self._alone, strict=True)
        return Found(
            "loss before training",
            sum(losses) / sum(targets),
            warn=WARN_LOSS * math.log(words),
            refuse=REFUSE_LOSS * math.log(words),
            unit="nats",
            advice="the base model does worse than guessing on these rows; make sure that its "
            "weights are whole and that its tokenizer is its own",
        )

    def together(self) -> Found:
        """Whether a row has the same loss in a batch as alone."""
        apart = [
            abs(batch_loss - loss) / targets
            for (batch_loss, _), (loss, targets) in zip(
                self._losses(self._rows), self._alone, strict=True
            )
        ]
        return Found(
            "rows together",
            math.nan if any(map(math.isnan, apart)) else max(apart),
            warn=WARN_APART[self._dtype],
            refuse=REFUSE_APART[self._dtype],
            unit="nats apart from each alone",
            advice="its result would depend on how rows are batched; state "
            "execution.microBatchSequences 1, or config.model.dtype float32",
        )

    @cached_property
    def _alone(self) -> list[tuple[float, int]]:
        return [self._losses(self._rows[n : n + 1])[0] for n in range(len(self._rows))]

    def _losses(self, rows: TokenRows) -> list[tuple[float, int]]:
        """Summed loss and number of targets of each row, all of them in one batch."""
        trainer = self._trainer
        batch = trainer.data_collator([row._asdict() for row in rows])
        inputs = {name: each.to(trainer.model.device) for name, each in batch.items()}
        with untouched(trainer.model), trainer.accelerator.autocast():
            # the forward pass of the trainer's own loss, which never makes all logits at once
            made = trainer.model(**inputs, use_cache=False, fused_lm_head=True)
        losses = -made.log_probs.double().sum(dim=1)
        return list(zip(losses.tolist(), made.label_mask.sum(dim=1).tolist(), strict=True))


def some_rows(rows: TokenRows, most: int) -> TokenRows:
    """At most so many of the shortest rows, of different lengths as far as there are any."""
    lengths = pc.list_value_length(rows.table["input_ids"]).to_numpy()
    _, first = np.unique(lengths, return_index=True)
    by_length = dict.fromkeys([*first.tolist(), *np.argsort(lengths, kind="stable").tolist()])
    return rows.take(list(by_length)[:most])


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Evaluate ``model`` inside, and find everything afterwards as it was."""
    random = rng.state()
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, is_training in modes.items():
            module.training = is_training
        rng.put(random)


def _said(value: float) -> str:
    if math.isfinite(value):
        return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
    return "NaN" if math.isnan(value) else "Infinity"
