"""How the runner sleeps."""

import threading
import time
from pathlib import Path

import pytest

from engine.runner import wakeup
from engine.runner.wakeup import Wakeup


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.jsonl"
    path.touch()
    return path


def append(file: Path) -> None:
    with file.open("a") as opened:
        opened.write("a line\n")


def test_a_wait_ends_when_the_file_grows(file: Path) -> None:
    """U5: followers see a step when it happens."""
    waiting = Wakeup(file)
    began = time.monotonic()

    writer = threading.Thread(target=append, args=(file,))
    writer.start()
    waiting.wait(60.0)
    writer.join()

    assert time.monotonic() - began < 30.0


def test_what_was_written_before_the_wait_ends_it_once(file: Path) -> None:
    """U5: no report falls between two waits."""
    waiting = Wakeup(file)
    append(file)
    began = time.monotonic()

    waiting.wait(60.0)
    assert time.monotonic() - began < 30.0

    began = time.monotonic()
    waiting.wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_a_system_that_tells_nothing_is_asked_often(tmp_path: Path) -> None:
    """U5: a job is never deaf, whatever the limits of its machine."""
    waiting = Wakeup(tmp_path / "no such file")
    began = time.monotonic()

    waiting.wait(60.0)

    assert wakeup._LOOK_SECONDS <= time.monotonic() - began < 30.0
