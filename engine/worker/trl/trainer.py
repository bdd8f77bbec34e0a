"""The trainer: TRL's, over our rows, and measured.

It makes the updates of this rank. Over several ranks, the trainer's own wrapping adds their
gradients up, and the loss of each is over the targets of all, so the sum is that of one process.
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from trl import SFTTrainer

from engine.prepare.prepared import IGNORED
from engine.worker.trl.facts import Progress
from engine.worker.trl.loading import Batch, Loader, is_idle
from engine.worker.trl.order import Batches, Order
from engine.worker.trl.ranks import Ranks


class MeasuringTrainer(SFTTrainer):  # type: ignore[misc]  # the library has no types
    """SFTTrainer that knows which updates are this run's, and how much of them was padding."""

    schedule_at_start: dict[str, Any]

    _real: torch.Tensor | int = 0  # on the device: adding there waits for nothing
    _cells = 0
    _look: Callable[[Batch], None] | None = None
    _base_step = 0
    _evaluated: torch.Tensor  # summed loss, and targets

    def __init__(
        self,
        *args: Any,
        order: Order,
        ranks: Ranks,
        around_forward: Callable[[], AbstractContextManager[None]],
        **kwargs: Any,
    ) -> None:
        """``order`` is that of the rows to train on, ``around_forward`` is entered for each pass.

        All other arguments are SFTTrainer's.
        """
        self.order = order
        self.ranks = ranks
        self._around_forward = around_forward
        super().__init__(*args, **kwargs)

    def go_on_from(self, begins: Progress, *, look: Callable[[Batch], None]) -> None:
        """Count on from ``begins``, pay what it owes, and let the first micro-batch be seen."""
        if self.ranks.leads:  # in the end, the counts of all ranks are added up
            self._real, self._cells = begins.tokens, begins.cells
        self._look = look
        self._base_step = begins.base_step
        self.args.eval_on_start = begins.owes_validation

    @property
    def step(self) -> int:
        """The newest update of this run."""
        made: int = self.state.global_step - self._base_step
        return made

    def get_train_dataloader(self) -> Loader:
        """The rows of this rank, in the order of the run."""
        return self._loader(self.train_dataset, self.order, shuffles=True)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Loader:  # noqa: ARG002 - its signature
        """The validation rows of this rank."""
        rows, micro = self.eval_dataset, self.args.per_device_eval_batch_size
        order = Order(
            rows=len(rows),
            seed=self.order.seed,
            per_update=micro * self.ranks.count,
            per_micro_batch=micro,
            ranks=self.ranks.count,
        )
        return self._loader(rows, order, shuffles=False)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Over the updates of this run, and not those that the trainer had made before it."""
        schedule = super().create_scheduler(num_training_steps - self._base_step, optimizer)
        self.schedule_at_start = copy.deepcopy(schedule.state_dict())
        return schedule

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Count the micro-batch, then train on it."""
        mask = inputs["attention_mask"]
        if not is_idle(inputs):
            self._real = self._real + mask.sum()
            self._cells += mask.numel()
        if self._look is not None:
            self._look(inputs)
            self._look = None
        return super().training_step(model, inputs, *args, **kwargs)

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """The loss, while what it keeps for the backward pass is measured."""
        with self._around_forward():
            return super().compute_loss(*args, **kwargs)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """The loss on the validation rows as that of an update: over the targets of all of them.

        The library's is a mean over batches, which another division would change.
        """
        self._evaluated = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        output = super().evaluation_loop(*args, **kwargs)
        loss, targets = self.accelerator.reduce(self._evaluated, reduction="sum").tolist()
        output.metrics["eval_loss"] = loss / max(targets, 1)
        return output

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Remember what the batch adds to the loss."""
        targets = (inputs["labels"][..., 1:] != IGNORED).sum().double()
        loss, *others = super().prediction_step(model, inputs, *args, **kwargs)
        self._evaluated += torch.stack(
            [loss.double() * targets.to(loss.device), targets.to(loss.device)]
        )
        return loss, *others

    def progress(self, *, loss_sum: float, owes_validation: bool) -> Progress:
        """How far the training is, on all ranks together."""
        real, cells = self._counted()
        return Progress(
            step=self.step,
            base_step=self._base_step,
            next_rows=self.order.next_rows(self.state.global_step),
            tokens=real,
            cells=cells,
            loss_sum=loss_sum,
            owes_validation=owes_validation,
        )

    def padding_share(self) -> float | None:
        """The share of all trained batches that was padding; None before the first."""
        real, cells = self._counted()
        return 1 - real / cells if cells else None

    def _counted(self) -> tuple[int, int]:
        """Tokens and cells of all ranks."""
        numbers = self.ranks.numbers
        return sum(numbers(int(self._real))), sum(numbers(self._cells))

    def _loader(self, rows: Any, order: Order, *, shuffles: bool) -> Loader:
        batches = Batches(order, self.ranks.rank, shuffles=shuffles)
        return Loader(rows, batches, self.data_collator, pins=self.args.dataloader_pin_memory)
