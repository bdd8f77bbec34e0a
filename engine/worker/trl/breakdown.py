"""Breakdown: what held the device in a step, as parts that add up to its size.

A phase of a step is told by a ``Sample``. What was reserved and not allocated belongs to the
allocator, and what others hold beside this training (a driver, another process) to ``outside``;
both are overhead. The phase that allocated the most is the peak of its step.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Parts(NamedTuple):
    """Bytes of what is known by name."""

    weights: int
    adapter: int
    gradients: int
    optimizer_state: int


class Sample(NamedTuple):
    """One moment of a phase; ``activations`` is None where nobody measures them."""

    phase: str
    parts: Parts
    activations: int | None
    reserved: int  # bytes that the training has, in use or not

    @property
    def allocated(self) -> int:
        """Bytes that are in use, as far as they are known."""
        return sum(self.parts) + (self.activations or 0)


class Device(NamedTuple):
    """What holds it all."""

    name: str
    size: int
    outside: int  # bytes that are neither free nor reserved by the training


def breakdown(device: Device, samples: Sequence[Sample]) -> dict[str, Any] | None:
    """What a report says of a step, of whose phases ``samples`` are; None where nothing fits.

    Of each phase the sample that allocated the most is told.
    """
    phases: dict[str, Sample] = {}
    for each in sorted(samples, key=lambda sample: sample.allocated):
        phases.pop(each.phase, None)
        phases[each.phase] = each
    *others, peak = phases.values()
    held = [_held(device, each) for each in (peak, *others[-1:])]
    if any(each["freeBytes"] < 0 for each in held):  # its size is not what it was said to be
        return None
    return {
        "device": device.name,
        "sizeBytes": device.size,
        "reservedBytes": max(each.reserved for each in samples),
        "peak": held[0],
        **({"other": held[1]} if len(held) > 1 else {}),
    }


def _held(device: Device, sample: Sample) -> dict[str, Any]:
    reserved = max(sample.reserved, sample.allocated)  # a part may be out of the memory just now
    said = {
        "phase": sample.phase,
        "weightsBytes": sample.parts.weights,
        "adapterBytes": sample.parts.adapter,
        "gradientsBytes": sample.parts.gradients,
        "activationsBytes": sample.activations,
        "optimizerStateBytes": sample.parts.optimizer_state,
        "overheadBytes": reserved - sample.allocated + device.outside,
        "freeBytes": device.size - reserved - device.outside,
    }
    return {name: value for name, value in said.items() if value is not None}
