"""Peak memory of the device that trains, as far as something really measures it."""

import resource

import torch

from engine.worker.trl import settings

_UNIT_BYTES = 1024  # Linux counts the resident set in KiB


def peak_bytes() -> dict[str, int]:
    """Peak bytes by device: reserved from a GPU's driver, or resident in this process."""
    if torch.cuda.is_available():
        return {settings.gpu_name(): torch.cuda.max_memory_reserved()}
    return {"cpu:0": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT_BYTES}
