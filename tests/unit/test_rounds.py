"""Rounds over what is to be done."""

import pytest

from engine.dispatch.rounds import each_of


def test_one_at_fault_holds_up_no_other() -> None:
    """U5: a run that cannot be looked after leaves all others as they would be without it."""
    seen = []

    def act(item: int) -> None:
        seen.append(item)
        if item % 2:
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        each_of(range(4), act)

    assert seen == [0, 1, 2, 3]
