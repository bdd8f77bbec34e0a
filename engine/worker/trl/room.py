"""Room: whether the disk takes what the plan wants saved.

Where committed snapshots are kept is not known here; by default it is the same disk. So what the
plan keeps is a warning, and what has to be written here in any case is the limit.
"""

import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from engine.worker.trl.checks import Found
from engine.worker.trl.saving import due
from ledger.plan import Config, Execution

MOMENTS = 2  # that AdamW keeps of each trained weight


class Sizes(NamedTuple):
    """Bytes of one snapshot, as far as they can be told before there is one."""

    weights: int
    training_state: int


def sizes(weights: Iterable[Tensor], beside: Iterable[bytes]) -> Sizes:
    """The sizes for those of these weights that are trained, with the files beside them."""
    adapter = sum(each.numel() * each.element_size() for each in weights if each.requires_grad)
    return Sizes(adapter + sum(map(len, beside)), MOMENTS * adapter)


def total_steps(config: Config, rows: int) -> int:
    """Updates of a whole run."""
    updates = math.ceil(rows / config.sequences_per_update)
    return config.max_steps or math.ceil((config.epochs or 1.0) * updates)


def planned_bytes(execution: Execution, each: Sizes, *, made: int, total: int) -> int:
    """What snapshots after update ``made`` take: those that are kept, and one being written."""
    saves = [
        resumable
        for step in range(made + 1, total + 1)
        for is_due, resumable in [due(step, execution, is_last=step == total)]
        if is_due
    ]
    weights = min(len(saves), execution.keep_weights or len(saves))
    states = min(sum(saves), execution.keep_training_state)
    return weights * each.weights + states * each.training_state + sum(each)


def check(folder: Path, each: Sizes, *, planned: int) -> Found:
    """Whether the disk of ``folder`` takes what the plan wants saved."""
    return compare(folder, each, free=shutil.disk_usage(folder).free, planned=planned)


def compare(folder: Path, each: Sizes, *, free: int, planned: int) -> Found:
    """What is free, against what the plan wants, and what one save and the model need."""
    return Found(
        "disk room",
        free,
        warn=planned,
        refuse=sum(each) + each.weights,
        unit="bytes free",
        advice=f"make room on the disk of {folder}",
    )
