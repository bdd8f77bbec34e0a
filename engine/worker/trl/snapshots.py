"""Snapshots: the files of one update, which a later attempt goes on from.

Below the folder's root are the weights, which any program that knows peft loads: the adapter as
safetensors, its configuration, the tokenizer with its chat template, and what wrote them. Below
``trainingState/`` is the rest: optimizer, schedule, random numbers, and how far the training was.

We write the parts ourselves, out of what the trainer hands to every callback. Its own writer does
not fit: it writes under the final name, adds a pickle of its arguments and a model card, keeps the
whole history of what was logged in every snapshot, and raises into the training where a disk is
full. What we write has the names and the form that the trainer reads, and it restores from there.
Every part is made in memory and written by ``folders``: so all that can fail is an OSError.
"""

import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch
from peft import get_peft_model_state_dict

from engine.worker.trl import folders, rng
from engine.worker.trl.facts import Progress, Writer

WEIGHTS = "adapter_model.safetensors"
CARD = "README.md"  # the library's empty form
TRAINING_STATE = "trainingState"
OPTIMIZER, SCHEDULE, SCALER = "optimizer.pt", "scheduler.pt", "scaler.pt"  # the trainer's names
TRAINER = "trainer_state.json"
PROGRESS, WRITER = "progress.json", "writer.json"

Files = Iterator[tuple[str, bytes | memoryview]]


def rng_of(rank: int) -> str:
    """The file of a rank's random numbers."""
    return f"rng-{rank}.pt" if rank else "rng.pt"


def adapter_tensors(model: Any) -> dict[str, torch.Tensor]:
    """The trained tensors, under the names that they have in a file."""
    tensors: dict[str, torch.Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return tensors


def companions(model: Any, tokenizer: Any, folder: Path) -> dict[str, bytes]:
    """Every file beside the weights: none changes while the adapter is trained."""
    with TemporaryDirectory(dir=folder, suffix=folders.PARTIAL) as made:
        model.save_pretrained(made, save_embedding_layers=False)
        tokenizer.save_pretrained(made)
        return {
            str(path.relative_to(made)): path.read_bytes()
            for path in sorted(Path(made).rglob("*"))
            if path.is_file() and path.name not in (WEIGHTS, CARD)
        }


def weights(model: Any, beside: Mapping[str, bytes]) -> Files:
    """The files of the adapter as it is now."""
    tensors = {name: each.contiguous() for name, each in adapter_tensors(model).items()}
    content: bytes = safetensors.torch.save(tensors, metadata={"format": "pt"})
    yield WEIGHTS, content
    yield from beside.items()


def facts(writer: Writer) -> Files:
    """The file that says what wrote the snapshot."""
    yield WRITER, writer.model_dump_json(by_alias=True).encode()


def training_state(
    state: Any,
    parts: Mapping[str, Any],
    *,
    scaler: Any,
    progress: Progress,
    random: Sequence[rng.State],
) -> Files:
    """The files that a training goes on from, as it is now.

    ``state`` is the trainer's, ``parts`` are its optimizer and lr_scheduler, ``scaler`` is that of
    a training in float16, else None, and ``random`` has the random numbers of each rank.
    """
    slim = dataclasses.replace(state, log_history=[])  # it would grow with every update
    found: dict[str, Callable[[], bytes | memoryview]] = {
        OPTIMIZER: lambda: _packed(parts["optimizer"].state_dict()),
        SCHEDULE: lambda: _packed(parts["lr_scheduler"].state_dict()),
        SCALER: lambda: _packed(scaler.state_dict()),
        TRAINER: lambda: json.dumps(dataclasses.asdict(slim)).encode(),
        PROGRESS: lambda: progress.model_dump_json(by_alias=True).encode(),
    }
    for rank, each in enumerate(random):
        yield f"{TRAINING_STATE}/{rng_of(rank)}", _packed(each)
    for name, make in found.items():
        if name != SCALER or scaler is not None:
            yield f"{TRAINING_STATE}/{name}", make()


def _packed(value: Any) -> memoryview:
    """What ``torch.save`` makes of ``value``."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getbuffer()
