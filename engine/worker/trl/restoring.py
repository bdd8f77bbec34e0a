"""Restoring: go on from a snapshot as if nothing had happened, or refuse by name.

Every part is read, and refused where it is missing, unreadable or somebody else's, before anything
is built. Then the trainer restores itself from the same files: adapter, optimizer, schedule, and
the place in the data, which it takes from the count of updates. Random numbers are put back by us,
at the two places where that is right: before an epoch that begins, and within an epoch after the
batches before were passed over, for drawing up the rows draws a number itself. In the end all that
is in place is compared with what was saved, and the ledger is told.

Another number of ranks may go on: rows, gradients and weights are the same whatever the division.
Random numbers are a rank's own. One that had none begins anew, as seed, rank and update say, and
what is reported of the random numbers is then that they differ.

A branch of training state goes on in the same way, though it is another run; a branch of weights
needs the weights alone. ``branching.py`` says what both do otherwise.
"""

import json
import math
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerState

from engine.client import Reporter
from engine.prepare.tokens import TokenRow
from engine.worker.start import Start
from engine.worker.trl import comparing, rng, snapshots
from engine.worker.trl.base import few
from engine.worker.trl.comparing import difference
from engine.worker.trl.errors import NothingLeftError, RefusalError
from engine.worker.trl.facts import FRESH, Progress, Writer
from engine.worker.trl.loading import Batch, is_idle
from engine.worker.trl.order import Order
from engine.worker.trl.ranks import Ranks

T = TypeVar("T")

_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RuntimeError,
    pickle.UnpicklingError,
    SafetensorError,
)


@dataclass(frozen=True)
class Weights:
    """What every snapshot holds."""

    folder: Path
    writer: Writer
    adapter: dict[str, torch.Tensor]

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return "the snapshot that this branch begins from"

    @property
    def begins(self) -> Progress:
        """How far the run is that takes it up."""
        return FRESH


@dataclass(frozen=True)
class Restored(Weights):
    """Everything that a snapshot with training state holds."""

    progress: Progress
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    random: rng.State | None  # of this rank; None: it had none when this was saved
    scale: dict[str, Any]  # of the gradients, in float16; else empty
    begins_branch: bool  # it is of another run than the one that takes it up

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return f"the snapshot of update {self.progress.step}"

    @property
    def begins(self) -> Progress:
        """How far the run is that takes it up."""
        return self.progress.branch() if self.begins_branch else self.progress

    def release(self) -> None:
        """Give back the memory of what was compared."""
        for each in (self.adapter, self.optimizer, self.schedule, self.random or {}, self.scale):
            each.clear()

    def for_the_trainer(self) -> str:
        """The folder with every file where the trainer looks for it."""
        for name in (snapshots.OPTIMIZER, snapshots.SCHEDULE, snapshots.SCALER, snapshots.TRAINER):
            found = self.folder / snapshots.TRAINING_STATE / name
            if found.exists():
                os.replace(found, self.folder / name)  # noqa: PTH105 - both are in the folder
        return str(self.folder)


def read(start: Start, *, rank: int = 0) -> Weights:
    """As much of the snapshot as this rank takes; all of it is a ``Restored``.

    Raises:
        RefusalError: a part of that is missing or cannot be read.
    """
    folder = start.folder
    inner = folder / snapshots.TRAINING_STATE
    if start.takes != "weights" and not inner.is_dir():
        raise RefusalError(
            "the snapshot to go on from holds weights alone, without the training state; "
            "take a snapshot that holds both"
        )
    weights = Weights(
        folder,
        writer=_read(folder / snapshots.WRITER, "facts about its writer", _json(Writer)),
        adapter=_read(folder / snapshots.WEIGHTS, "adapter", load_file),
    )
    if start.takes == "weights":
        return weights
    progress: Progress = _read(inner / snapshots.PROGRESS, "data position", _json(Progress))
    engine_step = progress.engine_step
    _read(inner / snapshots.TRAINER, "trainer state", lambda path: _trainer(path, engine_step))
    return Restored(
        folder,
        weights.writer,
        weights.adapter,
        progress=progress,
        optimizer=_read(inner / snapshots.OPTIMIZER, "optimizer state", _optimizer),
        schedule=_read(inner / snapshots.SCHEDULE, "learning-rate schedule", _schedule),
        random=_read(inner / snapshots.rng_of(rank), "RNG state", _random)
        if rank < weights.writer.world_size
        else None,
        scale=_read(inner / snapshots.SCALER, "gradient scale", _packed)
        if (inner / snapshots.SCALER).exists()
        else {},
        begins_branch=start.takes == "trainingState",
    )


def refuse_unfit_weights(weights: Weights, present: Writer, model: Any) -> None:
    """Refuse weights that would be another model's, or another model, in this worker.

    Raises:
        RefusalError: with what was saved and what is there.
    """
    _refuse_other_base(weights, present)
    _refuse_unfit_adapter(weights, present, snapshots.adapter_tensors(model))


def refuse_unfit(restored: Restored, present: Writer, model: Any, *, scaler: Any) -> None:
    """Refuse to go on where this worker would train something else than the snapshot's.

    ``scaler`` is that of a training in float16, else None.

    Raises:
        RefusalError: with what was saved and what is there.
    """
    saved = restored.writer
    _refuse_other_base(restored, present)
    _refuse_others(
        restored.name,
        ("the device", saved.device, present.device),
        ("config.sequencesPerUpdate", saved.sequences_per_update, present.sequences_per_update),
        (
            "execution.microBatchSequences",
            saved.micro_batch_sequences,
            present.micro_batch_sequences,
        ),
        ("config.seed", saved.seed, present.seed),
    )
    if saved.rows != present.rows:
        raise RefusalError(
            f"{restored.name} was saved while training on other rows than those that are there "
            "now; bring back the dataset and the base model's tokenizer as they were"
        )
    _refuse_unfit_adapter(restored, present, snapshots.adapter_tensors(model))
    if scaler is not None and not restored.scale:
        raise _refusal("gradient scale", snapshots.SCALER, "is missing")
    updated = len(restored.optimizer["state"])
    if updated != len(restored.adapter):
        raise RefusalError(
            f"the optimizer state of {restored.name} is about {updated} tensors, and its adapter "
            f"has {len(restored.adapter)}; take another snapshot"
        )


class RestoreState(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Puts random numbers back, and says whether what is in place is what was saved."""

    def __init__(
        self,
        reporter: Reporter,
        restored: Restored,
        *,
        rows: Sequence[TokenRow],
        order: Order,
        ranks: Ranks,
    ) -> None:
        """``rows`` are all rows, and ``order`` is that in which they are trained now."""
        self._reporter = reporter
        self._restored = restored
        self._rows = rows
        self._order = order
        self._ranks = ranks
        self._mid_epoch = order.place(restored.progress.engine_step)[1] > 0
        self._differences: dict[str, float] = {}
        self._is_done = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The trainer has restored all of its own."""
        restored = self._restored
        adapter = snapshots.adapter_tensors(kwargs["model"])
        self._differences = {
            "adapter": difference(restored.adapter, adapter),
            "optimizer": difference(restored.optimizer, kwargs["optimizer"].state_dict()),
            "dataPosition": difference(restored.progress.engine_step, state.global_step),
        }
        if not restored.begins_branch:  # whose schedule is its own
            present = kwargs["lr_scheduler"].state_dict()
            self._differences["schedule"] = difference(restored.schedule, present)
        if state.global_step >= state.max_steps:
            self._put_random_numbers()
            self._report()
            raise NothingLeftError

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The next thing that draws is the order of rows of this epoch."""
        if not self._is_done and not self._mid_epoch:
            self._put_random_numbers()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The next thing that draws is the update."""
        if not self._is_done:
            self._put_random_numbers()

    def check_rows(self, batch: Batch) -> None:
        """See whether the first micro-batch holds the rows that come next, and report."""
        saved = self._restored.progress.next_rows
        rows = self._order.next_rows(self._restored.progress.engine_step)
        mine = next(self._order.passes(rows, self._ranks.rank))
        expected = [self._rows[number].input_ids for number in mine]
        taken = [] if is_idle(batch) else _rows_of(batch)
        if rows[: len(saved)] != saved or taken != expected:
            self._differences["dataPosition"] = math.inf
        self._report()

    def _put_random_numbers(self) -> None:
        saved, writer, place = self._restored.random, self._restored.writer, self._ranks
        if saved is None:
            rng.begin(writer.seed, place.rank, self._restored.progress.engine_step)
        else:
            rng.put(saved)
        is_same = saved is not None and place.count == writer.world_size
        self._differences["rng"] = difference(saved, rng.state()) if is_same else math.inf
        self._is_done = True

    def _report(self) -> None:
        comparing.report(self._reporter, self._restored.begins.step, self._differences)
        self._restored.release()


def _rows_of(batch: Batch) -> list[list[int]]:
    """The tokens of each row, without padding."""
    return [
        ids[mask.bool()].tolist()
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def _refuse_other_base(weights: Weights, present: Writer) -> None:
    """Refuse another base model, or one that is held otherwise."""
    saved, of = weights.writer, weights.name
    _refuse_others(of, ("config.model.dtype", saved.dtype, present.dtype))
    if saved.base_model_digest != present.base_model_digest:
        raise RefusalError(
            f"{of} was saved with the base model {saved.base_model}, and the base model "
            f"{present.base_model} that is there now is another one or holds other weights; "
            "bring back the one that it was saved with"
        )


def _refuse_others(of: str, *facts: tuple[str, object, object]) -> None:
    """Refuse the first of ``facts`` whose value is not what it was when ``of`` was saved."""
    for what, before, now in facts:
        if before != now:
            raise RefusalError(
                f"{of} was saved with {what} {before}, and {what} is {now} now; "
                "go on with what it was saved with"
            )


def _refuse_unfit_adapter(
    weights: Weights, writer: Writer, present: Mapping[str, torch.Tensor]
) -> None:
    """Refuse an adapter that this run's model does not take whole, with names and shapes."""
    saved = weights.adapter
    reshaped = [
        f"{name} is {list(saved[name].shape)} and should be {list(present[name].shape)}"
        for name in sorted(saved.keys() & present.keys())
        if saved[name].shape != present[name].shape
    ]
    faults = [
        f"tensors {what}: {few(names)}"
        for what, names in (
            ("of another shape", reshaped),
            ("that are missing", sorted(present.keys() - saved.keys())),
            ("that are unexpected", sorted(saved.keys() - present.keys())),
        )
        if names
    ]
    if faults:
        raise RefusalError(
            f"the adapter of {weights.name} does not fit this run; " + "; ".join(faults)
        )
    # The same weights, scaled otherwise, would be another adapter, and nothing would say so.
    _refuse_others(
        weights.name, ("config.lora.alpha", weights.writer.adapter.alpha, writer.adapter.alpha)
    )


def _read(path: Path, part: str, load: Callable[[Path], T]) -> T:
    """What ``path`` holds, or a refusal that names the part; details go to the worker's log."""
    try:
        return load(path)
    except _UNREADABLE as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise _refusal(part, path.name, why) from error


def _refusal(part: str, name: str, why: str) -> RefusalError:
    return RefusalError(
        f"the snapshot to go on from is not whole: its {part} ({name}) {why}; take another snapshot"
    )


def _json(kind: Any) -> Callable[[Path], Any]:
    return lambda path: kind.model_validate_json(path.read_bytes())


def _trainer(path: Path, step: int) -> TrainerState:
    """What the trainer will read, and nothing that it would not understand."""
    state = TrainerState(**json.loads(path.read_bytes()))
    if state.global_step != step:
        raise ValueError(f"it is about update {state.global_step}, the data position about {step}")
    return state


def _packed(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _optimizer(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = _packed(path)
    _ = found["state"].keys(), found["param_groups"][0]["lr"]
    return found


def _schedule(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = _packed(path)
    _ = found["last_epoch"], found["lr_lambdas"]
    return found


def _random(path: Path) -> rng.State:
    found: rng.State = _packed(path)
    rng.check(found)
    return found
