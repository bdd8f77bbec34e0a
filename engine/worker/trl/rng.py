"""Random numbers: the state of every generator that a training draws from.

A state holds tensors, numbers and tuples only, so that a file of it loads without running anybody's
code (``weights_only=True``); numpy's own form would need an exception from that.
"""

import hashlib
import random
from typing import Any

import numpy as np
import torch

State = dict[str, Any]


def state() -> State:
    """The present state of Python's, numpy's and torch's generators, and of the GPU's."""
    numpys: dict[str, Any] = np.random.get_state(legacy=False)
    key = torch.from_numpy(numpys["state"]["key"].astype(np.int64))
    found = {
        "python": random.getstate(),
        "numpy": numpys | {"state": numpys["state"] | {"key": key}},
        "torch": torch.get_rng_state(),
    }
    return found | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def begin(seed: int, rank: int, step: int) -> None:
    """Let every generator begin anew, for a rank that has no state of its own at this step.

    What it then draws follows from the three numbers alone, and other numbers draw otherwise.
    """
    digest = hashlib.sha256(f"{seed} {rank} {step}".encode()).digest()
    derived = int.from_bytes(digest[:4], "little")  # numpy takes no more
    random.seed(derived)
    np.random.seed(derived)
    torch.manual_seed(derived)  # of every GPU as well


def check(found: State) -> None:
    """Load ``found`` into generators that nobody uses.

    Raises:
        KeyError, TypeError, ValueError, RuntimeError: it is not a state, or not one of this device.
    """
    random.Random().setstate(found["python"])  # noqa: S311 - no secret
    np.random.RandomState().set_state(_of_numpy(found))
    torch.Generator().set_state(found["torch"])
    if torch.cuda.is_available():
        torch.Generator("cuda").set_state(found["cuda"])


def put(found: State) -> None:
    """Let every generator go on from ``found``."""
    random.setstate(found["python"])
    np.random.set_state(_of_numpy(found))
    torch.set_rng_state(found["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state(found["cuda"])


def _of_numpy(found: State) -> dict[str, Any]:
    numpys: dict[str, Any] = found["numpy"]
    inner = numpys["state"]
    return numpys | {"state": inner | {"key": inner["key"].numpy().astype(np.uint32)}}
