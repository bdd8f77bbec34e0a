"""What an attempt begins from, as its environment says."""

from pathlib import Path

import pytest

from engine.worker.start import Start, start

NAMES = ("TRAINLEDGER_RESTORE", "TRAINLEDGER_ORIGIN", "TRAINLEDGER_BRANCH")


def told(
    monkeypatch: pytest.MonkeyPatch, *, restore: str = "", origin: str = "", branch: str = ""
) -> Start | None:
    for name, value in zip(NAMES, (restore, origin, branch), strict=True):
        monkeypatch.setenv(name, value)
    return start()


def test_an_attempt_begins_from_the_start_unless_it_is_told_of_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S143, S144: nothing; a snapshot of its own; one of another run, and what is taken of it."""
    assert told(monkeypatch) is None
    assert told(monkeypatch, restore="/r") == Start(Path("/r"), "resume")
    assert told(monkeypatch, origin="/o", branch="weights") == Start(Path("/o"), "weights")
    assert told(monkeypatch, origin="/o", branch="trainingState") == Start(
        Path("/o"), "trainingState"
    )


def test_a_branch_that_has_saved_something_goes_on_like_any_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S139: what it began from is not needed any more."""
    assert told(monkeypatch, restore="/r", branch="weights") == Start(Path("/r"), "resume")


@pytest.mark.parametrize(
    "halves", [{"branch": "weights"}, {"origin": "/o"}, {"origin": "/o", "branch": "everything"}]
)
def test_a_branch_that_is_told_half_trains_nothing(
    monkeypatch: pytest.MonkeyPatch, halves: dict[str, str]
) -> None:
    """C31: it would silently begin with a new adapter."""
    with pytest.raises((RuntimeError, ValueError)):
        told(monkeypatch, **halves)
