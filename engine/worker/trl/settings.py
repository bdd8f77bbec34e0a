"""What this worker tells its libraries, and learns, through the environment."""

import os

_LIBRARIES = {
    "HF_HUB_OFFLINE": "1",  # a run never waits for, or depends on, somebody else's server
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Threads that wait by spinning made an update 2 to 10 times as long on a machine with other
    # work (2 cores, load 4 to 5, measured 2026-11-29: 3 s asleep, 5 to 40 s spinning).
    "OMP_WAIT_POLICY": "PASSIVE",
}


def prepare_libraries() -> None:
    """Set what the libraries read once, when the first of them is imported."""
    os.environ.update(_LIBRARIES)


def gpu_name() -> str:
    """The machine's own name of the one GPU that this process can see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return f"cuda:{visible.split(',')[0]}"
