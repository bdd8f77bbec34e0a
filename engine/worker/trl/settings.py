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
    patience_seconds: float = 300.0  # so long one of them may keep the others waiting

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
    return Place(
        rank=int(os.environ["RANK"]),
        count=int(os.environ["WORLD_SIZE"]),
        rendezvous=Path(met_at),
        patience_seconds=float(os.environ.get("TRAINLEDGER_RANK_SECONDS", ALONE.patience_seconds)),
    )


def cpu_name() -> str:
    """What this process is called where its memory is told: its slot, if that is one of a CPU."""
    return _slot("cpu")


def gpu_name() -> str:
    """The slot of the GPU that this process trains on."""
    return _slot("cuda")


def _slot(kind: str) -> str:
    """The slot that this process holds; where it was given none of this kind, its number alone."""
    slots = os.environ.get("TRAINLEDGER_SLOTS", "").split(",")
    number = _on_this_machine()
    held = slots[number] if number < len(slots) else ""
    return held if held.startswith(f"{kind}:") else f"{kind}:{number}"


def _on_this_machine() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))
