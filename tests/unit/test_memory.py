"""How the runner learns that the system killed for memory."""

from pathlib import Path

import pytest

from engine.runner.memory import oom_kills


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize(
    ("own", "file", "content"),
    [
        ("0::/job\n", "job/memory.events", "low 0\noom 4\noom_kill 3\n"),
        ("0::/hidden/by/container\n", "memory.events", "oom_kill 3\n"),
        ("4:memory:/job\n0::/\n", "memory/job/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("4:cpu,memory:/hidden\n", "memory/memory.oom_control", "oom_kill 3\n"),
    ],
)
def test_the_count_of_the_nearest_control_group_is_read(
    tmp_path: Path, own: str, file: str, content: str
) -> None:
    """S74: killed by the OS, told from the control group and not from the signal alone."""
    write(tmp_path / "own", own)
    write(tmp_path / "groups" / file, content)

    assert oom_kills(groups=tmp_path / "groups", own=tmp_path / "own") == 3


@pytest.mark.parametrize("own", [None, "0::/job\n", "3:cpu:/\n"])
def test_where_nobody_counts_nothing_is_claimed(tmp_path: Path, own: str | None) -> None:
    """S74: plain -9 is no proof."""
    if own is not None:
        write(tmp_path / "own", own)

    assert oom_kills(groups=tmp_path / "groups", own=tmp_path / "own") is None
