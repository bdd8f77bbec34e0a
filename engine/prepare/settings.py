"""What the engine tells its libraries, and learns, through the environment."""

import os
from pathlib import Path

_LIBRARIES = {
    "HF_HUB_OFFLINE": "1",  # a run never waits for, or depends on, somebody else's server
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",  # processes of our own use the cores
    # Threads that wait by spinning made an update 2 to 10 times as long on a machine with other
    # work (2 cores, load 4 to 5, measured 2026-11-29: 3 s asleep, 5 to 40 s spinning).
    "OMP_WAIT_POLICY": "PASSIVE",
}


def prepare_libraries() -> None:
    """Set what the libraries read once, when the first of them is imported."""
    os.environ.update(_LIBRARIES)


def cache_folder() -> Path | None:
    """Where rows are kept that are tokenised already; None: nowhere."""
    named = os.environ.get("TRAINLEDGER_CACHE")
    return Path(named) if named else None


def datasets_folder() -> Path | None:
    """Where the rows of the catalogue lie; None: there is no catalogue."""
    named = os.environ.get("TRAINLEDGER_DATASETS")
    return Path(named) if named else None


def hub_folder() -> Path:
    """Where the hub's client keeps what it has downloaded."""
    home = Path.home() if "HOME" in os.environ else Path("/")
    base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    hub = os.environ.get("HF_HOME") or Path(base) / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(hub) / "hub").expanduser()
