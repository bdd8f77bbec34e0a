"""Facts of a snapshot: what wrote it and of which shape it is, and how far the training was.

They are told to the ledger with the snapshot, and kept among its training state, where a restore
compares them with what it finds.
"""

import importlib.metadata
from typing import Any, Literal

from ledger.plan import Plan
from ledger.reports import Part

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


class Adapter(Part):
    """The shape of the adapter."""

    rank: int
    alpha: float
    target_modules: tuple[str, ...]  # without the layers that they are in
    tensors: int
    parameters: int


class Writer(Part):
    """What wrote a snapshot."""

    engine: Literal["trl"] = "trl"
    engine_version: str  # of TRL
    versions: dict[str, str]  # of each library; told, and not compared
    world_size: int
    device: str  # cpu or cuda
    base_model: str
    base_model_digest: str  # over a part of every tensor
    dtype: str  # in which the base model is held
    adapter: Adapter
    rows: str  # digest of all rows that are trained, as tokens
    seed: int
    sequences_per_update: int
    micro_batch_sequences: int


class Progress(Part):
    """How far a run was, beside what the trainer's own files say."""

    step: int  # of this run
    base_step: int = 0  # the trainer's step that it began at; above 0 in a branch of training state
    next_rows: tuple[int, ...]  # of the update that comes next, the first of them at least
    tokens: int  # trained so far, without padding
    cells: int  # of the batches so far, with padding
    loss_sum: float  # of all updates
    owes_validation: bool  # was due after this update, and gave way to the end of the attempt

    @property
    def engine_step(self) -> int:
        """What the trainer itself counts."""
        return self.base_step + self.step

    def branch(self) -> "Progress":
        """The start of another run that goes on from here; what it did is counted anew."""
        return FRESH.model_copy(update={"base_step": self.engine_step, "next_rows": self.next_rows})


FRESH = Progress(step=0, next_rows=(), tokens=0, cells=0, loss_sum=0.0, owes_validation=False)


def versions() -> dict[str, str]:
    """The version of each library that trains."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def writer(plan: Plan, args: Any, model: Any, *, base_model_digest: str, rows: str) -> Writer:
    """What this worker says about itself."""
    lora = model.active_peft_config
    trained = [each for each in model.parameters() if each.requires_grad]
    known = versions()
    return Writer(
        engine_version=known["trl"],
        versions=known,
        world_size=args.world_size,
        device=args.device.type,
        base_model=plan.base_model,
        base_model_digest=base_model_digest,
        dtype=plan.config.model.dtype,
        adapter=Adapter(
            rank=lora.r,
            alpha=lora.lora_alpha,
            target_modules=tuple(sorted({each.split(".")[-1] for each in lora.target_modules})),
            tensors=len(trained),
            parameters=sum(each.numel() for each in trained),
        ),
        rows=rows,
        seed=plan.config.seed,
        sequences_per_update=plan.config.sequences_per_update,
        micro_batch_sequences=args.per_device_train_batch_size,
    )
