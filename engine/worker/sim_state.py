"""How far a run of sim is, and the files of its snapshots."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

WEIGHTS = "adapter_model.safetensors"
FORMAT = 1

_STATE = Path("trainingState") / "state.json"


class UnfitError(Exception):
    """The snapshot to go on from is not one that this engine can read."""


@dataclass(frozen=True)
class State:
    """How far a script is carried out."""

    step: int = 0  # newest update
    instruction: int = 0  # place in the script, from 0
    updates: int = 0  # of that instruction, which are done
    training: int | None = None  # what the newest such instruction announced
    base_step: int = 0  # of the engine, where this run began: above 0 in a branch of training state
    learned: int = 0  # updates that were in the weights where this run began

    def of_engine(self, step: int) -> int:
        """The engine's count of update ``step``."""
        return self.base_step + step

    def of_weights(self, step: int) -> int:
        """The updates that are in the weights after update ``step``."""
        return self.learned + step

    def weights(self) -> bytes:
        """The file of the weights after the newest update."""
        return tensors(self.of_weights(self.step))

    def branch(self) -> "State":
        """The start of another run that goes on from here."""
        return State(base_step=self.of_engine(self.step), learned=self.of_weights(self.step))


def tensors(updates: int) -> bytes:
    """A safetensors file without tensors: the length of its header in 8 bytes, then the header."""
    header = json.dumps({"__metadata__": {"format": "pt", "step": str(updates)}}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def updates_in(weights: bytes) -> int:
    """How many updates are in a file of weights.

    Raises:
        UnfitError: it is not ours.
    """
    try:
        return int(json.loads(weights[8:])["__metadata__"]["step"])
    except (ValueError, KeyError, TypeError):
        raise UnfitError("the snapshot to go on from holds the weights of another engine") from None


def write(folder: Path, state: State, *, is_resumable: bool) -> None:
    """Write what a snapshot holds."""
    shutil.rmtree(folder, ignore_errors=True)  # a save that the script left half done
    folder.mkdir(parents=True)
    (folder / WEIGHTS).write_bytes(state.weights())
    if is_resumable:
        (folder / _STATE.parent).mkdir()
        (folder / _STATE).write_text(json.dumps({"format": FORMAT} | asdict(state)))


def read_weights(folder: Path) -> bytes:
    """The weights of the snapshot in ``folder``.

    Raises:
        UnfitError: they are not there.
    """
    try:
        return (folder / WEIGHTS).read_bytes()
    except FileNotFoundError:
        raise UnfitError("the snapshot to go on from holds no weights") from None


def read_state(folder: Path) -> State:
    """The training state of the snapshot in ``folder``.

    Raises:
        UnfitError: it is not there, or not ours.
    """
    try:
        said = json.loads((folder / _STATE).read_bytes())
    except FileNotFoundError:
        raise UnfitError("the snapshot to go on from holds no training state") from None
    except ValueError:
        said = None
    if not isinstance(said, dict) or said.pop("format", None) != FORMAT:
        raise UnfitError("the snapshot to go on from holds the training state of another engine")
    return State(**said)
