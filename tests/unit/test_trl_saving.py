"""Parts of saving that need no training: folders, random numbers, requests."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.client import Reporter
from engine.worker.trl import folders, rng
from engine.worker.trl.requests import Asked

KILLED = """
import os, signal, sys
from pathlib import Path
from engine.worker.trl import folders
def files():
    yield "weights", b"all of it"
    os.kill(os.getpid(), signal.SIGKILL)
folders.write(Path(sys.argv[1]), files())
"""


def test_a_folder_has_its_name_only_when_everything_is_in_it(tmp_path: Path) -> None:
    """I9: files in it and below it, and nothing beside it."""

    def files() -> Iterator[tuple[str, bytes]]:
        yield "weights", b"1"
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2.partial"]
        yield "trainingState/optimizer", b"22"

    folder = folders.write(tmp_path / "checkpoint-2", files())

    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]
    assert (folder / "weights").read_bytes() == b"1"
    assert (folder / "trainingState" / "optimizer").read_bytes() == b"22"


def test_a_save_that_is_killed_leaves_a_partial_folder_alone(tmp_path: Path) -> None:
    """I9: what is left can be told from a snapshot, and a later save is not kept by it."""
    folder = tmp_path / "checkpoint-2"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)

    assert ended.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2.partial"]
    assert list(folders.write(folder, [("other", b"1")]).iterdir()) == [folder / "other"]


def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """I9."""

    def files() -> Iterator[tuple[str, bytes]]:
        yield "weights", b"1"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        folders.write(tmp_path / "checkpoint-2", files())

    assert not list(tmp_path.iterdir())


def test_every_generator_goes_on_from_its_state(tmp_path: Path) -> None:
    """C20: Python's, numpy's and torch's, through a file that runs no code."""

    def draw() -> tuple[float, float, float]:
        return random.gauss(0, 1), float(np.random.standard_normal()), torch.rand(()).item()

    draw()  # the second half of a pair is kept by each
    torch.save(rng.state(), tmp_path / "rng.pt")
    first = [draw() for _ in range(5)]

    saved = torch.load(tmp_path / "rng.pt", weights_only=True)
    rng.check(saved)
    rng.put(saved)

    assert [draw() for _ in range(5)] == first


def test_checking_a_state_draws_nothing_and_changes_nothing() -> None:
    """C20."""
    saved = rng.state()
    expected = torch.rand(())
    rng.put(saved)

    random.seed(1)
    rng.check(rng.state())

    assert torch.rand(()) == expected


def test_a_signal_asks_to_save_unless_a_stop_was_asked_for(tmp_path: Path) -> None:
    """I4: stop goes before everything, SIGTERM before pause."""
    control = tmp_path / "control.json"
    before = signal.getsignal(signal.SIGTERM)
    try:
        asked = Asked(Reporter(tmp_path / "spool.jsonl", control=control))
        heard = [asked()]
        for said in ('{"request": "pause"}', '{"request": null}'):
            (tmp_path / "new").write_text(said)
            (tmp_path / "new").replace(control)
            heard.append(asked())
        os.kill(os.getpid(), signal.SIGTERM)
        heard.append(asked())
        (tmp_path / "new").write_text('{"request": "stop", "serial": 3}')
        (tmp_path / "new").replace(control)
        heard.append(asked())
    finally:
        signal.signal(signal.SIGTERM, before)

    assert heard == [None, "pause", None, "end", "stop"]
