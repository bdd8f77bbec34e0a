"""What this worker learns through its environment."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Which of the ranks of a worker this process is."""

    rank: int = 0
    count: int = 1
    rendezvous: Path | None = None  # a file that rank 0 makes when it is ready to meet the others

    @property
    def leads(self) -> bool:
        """Whether it decides, writes and reports."""
        return self.rank == 0


ALONE = Place()


def place() -> Place:
    """The place of this process; that of a worker of one process where nobody says otherwise."""
    met_at = os.environ.get("TRAINLEDGER_RENDEZVOUS")
    if met_at is None:
        return ALONE
    return Place(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(met_at))


def cpu_name() -> str:
    """What this process is called where its memory is told."""
    return f"cpu:{_on_this_machine()}"


def gpu_name() -> str:
    """The slot of the GPU that this process trains on."""
    slots = os.environ.get("TRAINLEDGER_SLOTS", "").split(",")
    number = _on_this_machine()
    return slots[number] if number < len(slots) and slots[number] else f"cuda:{number}"


def _on_this_machine() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))
