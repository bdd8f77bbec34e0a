"""Gauges: how much memory a training has, on a GPU or in this process.

A GPU's allocator remembers its own peaks. On a CPU nobody does, so the process is looked at when it
holds the most: at the end of each forward pass, and before and after the optimizer's step. What it
keeps for the backward pass is counted there while autograd has it.
"""

import resource
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.runner.memory import limit_bytes
from engine.worker.trl import settings
from engine.worker.trl.breakdown import Device, Parts, Sample

_UNIT_BYTES = 1024  # Linux counts the largest resident set in KiB


class Gauge(Protocol):
    """What measures one kind of device."""

    kind: str  # as torch calls it
    is_cheap: bool  # enough for every step

    def device(self) -> Device:
        """What is there."""

    def reserved_bytes(self) -> int:
        """What this process has now, in use or not."""

    def peak_bytes(self) -> dict[str, int]:
        """The most that this process had of each device, reserved or resident."""

    def watch(self) -> AbstractContextManager[None]:
        """A context for a forward pass."""

    def begin(self) -> None:
        """A phase begins."""

    def forward_made(self, phase: str, parts: Parts) -> list[Sample]:
        """A forward pass has ended; its activations are kept for the backward pass."""

    def end(self, phase: str, parts: Parts) -> Sample:
        """The phase ends; ``parts`` are those at its peak."""


class ProcessGauge:
    """This process, on a CPU."""

    kind = "cpu"
    is_cheap = False

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        """``parameters`` are not activations, though autograd points to them as well."""
        self._parameters = {each.untyped_storage().data_ptr() for each in parameters}
        self._process = psutil.Process()
        self._kept: weakref.WeakSet[_Kept] = weakref.WeakSet()
        self._has_watched = False

    def device(self) -> Device:
        """The machine's memory, or as much of it as this process may have."""
        whole = psutil.virtual_memory().total
        return Device(settings.cpu_name(), min(whole, limit_bytes() or whole), outside=0)

    def reserved_bytes(self) -> int:
        """The resident set."""
        return int(self._process.memory_info().rss)

    def peak_bytes(self) -> dict[str, int]:
        """The largest resident set."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT_BYTES
        return {settings.cpu_name(): peak}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Know every tensor that is kept for the backward pass."""
        self._has_watched = True
        with saved_tensors_hooks(self._keep, lambda kept: kept.tensor):
            yield

    def begin(self) -> None:
        """Nothing remembers a peak that could be forgotten."""

    def forward_made(self, phase: str, parts: Parts) -> list[Sample]:
        """The process as it is."""
        return [self.end(phase, parts)]

    def end(self, phase: str, parts: Parts) -> Sample:
        """The process as it is."""
        activations = self._activation_bytes() if self._has_watched else None
        return Sample(phase, parts, activations, self.reserved_bytes())

    def _keep(self, tensor: Tensor) -> "_Kept":
        kept = _Kept(tensor)
        self._kept.add(kept)
        return kept

    def _activation_bytes(self) -> int:
        return storage_bytes((each.tensor for each in self._kept), but=self._parameters)


class _Kept:
    """A tensor for as long as autograd keeps it."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class CudaGauge:
    """The GPU that this process sees."""

    kind = "cuda"
    is_cheap = True

    def __init__(self) -> None:
        """Nothing was reserved so far."""
        self._reserved = 0

    def device(self) -> Device:
        """The GPU; what is neither free nor reserved is the driver's, or another process's."""
        free, size = torch.cuda.mem_get_info()
        return Device(settings.gpu_name(), size, size - free - torch.cuda.memory_reserved())

    def reserved_bytes(self) -> int:
        """What the allocator has of the driver."""
        return torch.cuda.memory_reserved()

    def peak_bytes(self) -> dict[str, int]:
        """What was reserved from the driver."""
        self._reserved = max(self._reserved, torch.cuda.max_memory_reserved())
        return {settings.gpu_name(): self._reserved}

    def watch(self) -> AbstractContextManager[None]:
        """The allocator sees everything anyway."""
        return nullcontext()

    def begin(self) -> None:
        """Forget the peaks of the phase before, but for the highest of all."""
        self.peak_bytes()
        torch.cuda.reset_peak_memory_stats()

    def forward_made(self, phase: str, parts: Parts) -> list[Sample]:  # noqa: ARG002
        """The peak is still to come."""
        return []

    def end(self, phase: str, parts: Parts) -> Sample:
        """What the allocator remembers."""
        return cuda_sample(phase, parts, torch.cuda.memory_stats())


def cuda_sample(phase: str, parts: Parts, stats: dict[str, int]) -> Sample:
    """The peak that the allocator's ``stats`` tell of; what has no name there is activations."""
    activations = stats["allocated_bytes.all.peak"] - sum(parts)
    return Sample(phase, parts, max(0, activations), stats["reserved_bytes.all.peak"])


def storage_bytes(tensors: Iterable[Tensor], *, but: Iterable[int] = ()) -> int:
    """Bytes of the memory that ``tensors`` lie in; what several of them share counts once.

    Memory that begins at one of the addresses ``but`` is left out.
    """
    found: dict[int, int] = {}
    for each in tensors:
        storage = each.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    for address in but:
        found.pop(address, None)
    return sum(found.values())
