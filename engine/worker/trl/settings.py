"""What this worker learns through its environment."""

import os


def gpu_name() -> str:
    """The machine's own name of the one GPU that this process can see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return f"cuda:{visible.split(',')[0]}"
