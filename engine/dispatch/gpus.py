"""GPUs: those of this machine, as its driver's own library counts them.

NVML needs no torch, and tells each GPU's UUID, which names it whatever order a process counts in.
"""

from types import ModuleType
from typing import NamedTuple

import pynvml


class Gpu(NamedTuple):
    """One GPU."""

    slot: str  # cuda:0, by NVML's own number
    uuid: str  # GPU-...
    name: str  # its model
    memory_bytes: int


def found(nvml: ModuleType = pynvml) -> tuple[Gpu, ...]:
    """Every GPU of this machine; none where there is no driver, or where it does not answer."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        return tuple(_gpu(nvml, number) for number in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ModuleType, number: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    return Gpu(
        slot=f"cuda:{number}",
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=nvml.nvmlDeviceGetName(handle),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
    )
