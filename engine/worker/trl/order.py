"""Order: which rows the trainer takes at which update, and which rank takes which of them.

Every epoch takes the rows in a new order that follows from the seed and the number of the epoch,
so the place in the data is known from the count of updates: the trainer's own, which a branch of
training state does not begin anew. The rows of an update follow from nothing else; how they are
divided over ranks and passes comes after that, so no division changes them.
"""

import math
from collections.abc import Iterator, Sequence
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
    ranks: int = 1

    @property
    def updates(self) -> int:
        """Updates of an epoch; the last of them takes what is left."""
        return math.ceil(self.rows / self.per_update)

    def place(self, step: int) -> tuple[int, int]:
        """Whole epochs before the update after ``step``, and updates of its own epoch before it."""
        return divmod(step, self.updates)

    def epoch(self, number: int) -> Iterator[int]:
        """Numbers, from 0, of all rows in the order of this epoch."""
        sampler = SeedableRandomSampler(range(self.rows), data_seed=self.seed)
        sampler.set_epoch(number)
        yield from sampler

    def next_rows(self, step: int) -> tuple[int, ...]:
        """Numbers of the rows in the update after ``step``."""
        epoch, made = self.place(step)
        first = made * self.per_update
        return tuple(islice(self.epoch(epoch), first, first + self.per_update))

    def passes(self, rows: Sequence[int], rank: int) -> Iterator[Sequence[int]]:
        """The micro-batches in which a rank takes its share of the rows of one update.

        Every rank has equally many, as all of them have to go forward together. A pass that is not
        full is spread evenly; where it has fewer rows than there are ranks, some get none.
        """
        together = self.per_micro_batch * self.ranks
        for first in range(0, len(rows), together):
            these = rows[first : first + together]
            begin, end = (-(-len(these) * each // self.ranks) for each in (rank, rank + 1))
            yield these[begin:end]

    def passes_of_epoch(self) -> int:
        """Micro-batches that a rank takes in an epoch."""
        whole, rest = divmod(self.rows, self.per_update)
        together = self.per_micro_batch * self.ranks
        return whole * math.ceil(self.per_update / together) + math.ceil(rest / together)

    def idle(self, step: int) -> int:
        """How often, in all updates up to ``step``, a rank went forward without any row."""
        last_pass = (self.rows % self.per_update or self.per_update) % (
            self.per_micro_batch * self.ranks
        )
        idle = max(0, self.ranks - last_pass) if last_pass else 0
        return step // self.updates * idle


class Batches:
    """The micro-batches of one rank, epoch by epoch, as a data loader takes them."""

    def __init__(self, order: Order, rank: int, *, shuffles: bool) -> None:
        """Without ``shuffles``, every epoch takes the rows in the order of their file."""
        self._order = order
        self._rank = rank
        self._shuffles = shuffles
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next iteration is of."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Micro-batches of an epoch."""
        return self._order.passes_of_epoch()

    def __iter__(self) -> Iterator[list[int]]:
        """Numbers of the rows of each micro-batch; none where another rank has the rest."""
        order = self._order
        rows = order.epoch(self._epoch) if self._shuffles else iter(range(order.rows))
        while update := list(islice(rows, order.per_update)):
            yield from map(list, order.passes(update, self._rank))
