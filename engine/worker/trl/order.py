"""Order: which rows the trainer takes at which update.

Every epoch takes the rows in a new order that follows from the seed and the number of the epoch,
so the place in the data is known from the count of updates: the trainer's own, which a branch of
training state does not begin anew.
"""

import math
from dataclasses import dataclass
from itertools import islice

from accelerate.data_loader import SeedableRandomSampler  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Order:
    """The rows of one training."""

    rows: int
    seed: int
    per_update: int
    per_micro_batch: int

    def place(self, step: int) -> tuple[int, int]:
        """Whole epochs before the update after ``step``, and updates of its own epoch before it."""
        return divmod(step, math.ceil(self.rows / self.per_update))

    def next_rows(self, step: int) -> tuple[int, ...]:
        """Numbers, from 0, of the rows in the first micro-batch after ``step``."""
        epoch, made = self.place(step)
        sampler = SeedableRandomSampler(range(self.rows), data_seed=self.seed)
        sampler.set_epoch(epoch)
        first = made * self.per_update
        return tuple(islice(sampler, first, first + self.per_micro_batch))
