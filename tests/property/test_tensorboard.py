"""Laws of event files, over any legal history."""

import math
import struct
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ledger.events import Recorded, RunSubmitted
from tests.event_files import curves, written
from tests.property.histories import families, naive_series

EXAMPLES = count(1)
READ = settings(max_examples=25)  # an example is written to disk and read with TensorBoard


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@READ
@given(data=st.data(), history=families())
def test_what_tensorboard_reads_is_a_fold_that_really_deletes(
    folder: Path, data: st.DataObject, history: list[Recorded]
) -> None:
    """S86, S121, D5: any history of steps and restores, asked for in any number of parts."""
    place = folder / str(next(EXAMPLES))
    positions = st.integers(0, history[-1].position)
    stops = sorted(data.draw(st.lists(positions, max_size=4)))

    for run_id in [each.run_id for _, each in history if isinstance(each, RunSubmitted)]:
        read = curves(written(place / run_id, history, run=run_id, stops=stops))
        found = {
            tag: [(step, bits(value)) for step, value in points]
            for tag, points in read.items()
            if tag.startswith("train/") and points
        }
        assert found == expected(history, run_id)


def expected(history: list[Recorded], run_id: str) -> dict[str, list[tuple[int, bytes]]]:
    found: dict[str, Any] = defaultdict(list)
    for step, measured in naive_series(history, run_id):
        for name, value in measured.items():
            found[f"train/{name}"].append((step, bits(value)))
    return dict(found)


def bits(value: float) -> bytes:
    """The 32 bits that an event file has of a number; every NaN is one."""
    if math.isnan(value):
        return b"NaN"
    try:
        return struct.pack("f", value)
    except OverflowError:
        return struct.pack("f", float("inf") if value > 0 else float("-inf"))
