"""Loading: the rows of one rank as batches.

The trainer's own loader is not used: over several ranks it fills the end of an epoch with rows from
its beginning, so some rows would train twice, and be measured twice.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from engine.prepare.prepared import IGNORED
from engine.worker.trl.order import Batches

IDLE_TOKENS = 2  # of a batch without rows: the fewest with something to predict

Batch = Mapping[str, torch.Tensor]
Collator = Callable[[list[Mapping[str, Sequence[int]]]], Batch]


class Loader(DataLoader):  # type: ignore[type-arg]  # of rows, as the trainer takes them
    """The micro-batches of one rank."""

    def __init__(self, rows: Dataset, batches: Batches, collate: Collator, *, pins: bool) -> None:
        """``collate`` makes a batch of rows; ``pins`` readies its memory for a GPU."""
        filler = {name: rows[0][name][:1] * IDLE_TOKENS for name in ("input_ids", "labels")}
        filler["labels"] = [IGNORED] * IDLE_TOKENS
        super().__init__(
            rows,
            batch_sampler=batches,
            collate_fn=lambda found: collate(found or [filler]),
            pin_memory=pins,
        )
        self._batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next; the trainer says it."""
        self._batches.set_epoch(epoch)


def is_idle(batch: Batch) -> bool:
    """Whether a batch stands for no row: without a target, it adds nothing to loss or gradient."""
    return bool((batch["labels"] == IGNORED).all())
