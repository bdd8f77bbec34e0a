"""A few random histories of ``make chaos``, which plays hundreds."""

from pathlib import Path

from tests.chaos.__main__ import branching, rounds


def test_whatever_is_killed_no_event_is_lost_and_every_run_ends_right(tmp_path: Path) -> None:
    """U3, U5, C44, C55, S60: no line lost or doubled, one curve, a true bill, an equal replay."""
    histories = rounds(tmp_path, 1, histories=16, real=0)

    assert sum(len(each.done) for each in histories) > 16


def test_whenever_the_server_is_killed_one_token_is_one_child(tmp_path: Path) -> None:
    """S156, S161, C54, D14: no run half made, no source held for ever, the parent as before."""
    assert branching(tmp_path, 3, kills=4)
