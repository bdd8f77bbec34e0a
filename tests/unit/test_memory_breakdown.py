"""What held a device: the arithmetic, what the ledger takes of it, and what people read."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.render import memory as shown
from engine.client import Reporter
from engine.worker.trl.breakdown import Device, Parts, Sample, breakdown
from ledger import attempt, reports
from ledger.attempt import JobHead
from ledger.events import LineRejected, MemoryMeasured
from ledger.reports import ReportError
from ledger.run import Stamp
from ledger.store.sqlite import Database
from projections.documents import Documents
from tests import make

PASSES = Parts(weights=1000, adapter=40, gradients=0, optimizer_state=80)
STEPPING = Parts(weights=1000, adapter=40, gradients=40, optimizer_state=80)
TOTAL = (
    "weightsBytes",
    "adapterBytes",
    "gradientsBytes",
    "activationsBytes",
    "optimizerStateBytes",
    "overheadBytes",
    "freeBytes",
)


def gpu(*, size: int = 8000, outside: int = 500) -> dict[str, Any]:
    """A step whose passes allocated 3,120 of 4,000 bytes, and its optimizer 1,360 of them."""
    found = breakdown(
        Device("cuda:0", size, outside),
        [Sample("passes", PASSES, 2000, 4000), Sample("optimizer", STEPPING, 200, 4000)],
    )
    assert found is not None
    return found


def test_the_parts_and_what_is_free_are_the_device() -> None:
    """S63: 3,120 allocated, 880 only reserved and 500 of the driver, 3,500 free: 8,000."""
    peak = gpu()["peak"]

    assert peak == {
        "phase": "passes",
        "weightsBytes": 1000,
        "adapterBytes": 40,
        "gradientsBytes": 0,
        "activationsBytes": 2000,
        "optimizerStateBytes": 80,
        "overheadBytes": 4000 - 3120 + 500,
        "freeBytes": 8000 - 4000 - 500,
    }
    assert sum(peak[name] for name in TOTAL) == 8000


def test_the_other_phase_of_that_step_is_told_as_well() -> None:
    """S64: the optimizer's step, with gradients, and little else."""
    found = gpu()

    assert found["other"]["phase"] == "optimizer"
    assert found["other"]["gradientsBytes"] == 40
    assert found["other"]["overheadBytes"] == 4000 - (1000 + 40 + 40 + 80 + 200) + 500
    assert sum(found["other"][name] for name in TOTAL) == 8000


def test_of_several_micro_batches_the_largest_is_the_phase() -> None:
    """S63: the peak is a moment, not a sum over moments."""
    found = breakdown(
        Device("cpu:0", 9000, 0),
        [
            Sample("passes", PASSES, 700, 4000),
            Sample("passes", STEPPING, 900, 4100),
            Sample("passes", STEPPING, 0, 4100),
            Sample("optimizer", STEPPING, 0, 4300),
        ],
    )

    assert found is not None
    assert (found["peak"]["phase"], found["peak"]["activationsBytes"]) == ("passes", 900)
    assert (found["other"]["phase"], found["other"]["activationsBytes"]) == ("optimizer", 0)
    assert found["reservedBytes"] == 4300


def test_what_nobody_measured_is_absent_and_part_of_the_overhead() -> None:
    """S65: null, no invention; the sum stays the device."""
    found = breakdown(Device("cpu:0", 9000, 0), [Sample("passes", PASSES, None, 4000)])

    assert found is not None
    assert "activationsBytes" not in found["peak"]
    assert "other" not in found
    assert found["peak"]["overheadBytes"] == 4000 - 1120
    assert sum(found["peak"].get(name, 0) for name in TOTAL) == 9000


def test_a_part_that_is_not_resident_makes_no_negative_overhead() -> None:
    """S63: the parts are 1,120 bytes, of which 1,000 are in memory."""
    found = breakdown(Device("cpu:0", 9000, 0), [Sample("passes", PASSES, 0, 1000)])

    assert found is not None
    assert (found["peak"]["overheadBytes"], found["peak"]["freeBytes"]) == (0, 9000 - 1120)


def test_a_device_that_is_smaller_than_what_it_holds_has_no_breakdown() -> None:
    """S65: a size that cannot be true is not told."""
    assert breakdown(Device("cpu:0", 3000, 0), [Sample("passes", PASSES, 0, 4000)]) is None


def line(**facts: Any) -> str:
    said = {"kind": "memory", "step": 3, "peakBytes": {"cuda:0": 4000}, "breakdown": gpu()}
    return json.dumps(said | facts)


def test_the_ledger_keeps_a_breakdown_as_it_came(tmp_path: Path) -> None:
    """S63, S64: from the client's line to the event and back."""
    Reporter(tmp_path / "spool").memory({"cuda:0": 4000}, step=3, breakdown=gpu())
    said = (tmp_path / "spool").read_text()

    event = attempt.take(JobHead("run/r/a1"), said, Stamp(make.START, "attempt"))

    assert isinstance(event, MemoryMeasured)
    assert event.breakdown is not None
    assert event.breakdown.peak.activations_bytes == 2000
    assert event.breakdown.peak.generation_bytes is None
    assert MemoryMeasured.model_validate_json(event.model_dump_json()) == event


def test_parts_that_are_not_the_device_are_rejected_with_both_sums() -> None:
    """S63: parts + free = device size, or the line is kept as rejected."""
    wrong = gpu() | {"sizeBytes": 8001}

    with pytest.raises(ReportError, match="are 8000 bytes, and cuda:0 has 8001"):
        reports.parse(line(breakdown=wrong))
    event = attempt.take(JobHead("run/r/a1"), line(breakdown=wrong), Stamp(make.START, "attempt"))
    assert isinstance(event, LineRejected)


def test_an_old_event_has_no_breakdown() -> None:
    """style.md 12: the default of a new field is true of old events."""
    old = make.memory({"cuda:0": 5}).model_dump(exclude={"breakdown"})

    assert MemoryMeasured.model_validate(old).breakdown is None


def said(reserved: int, step: int, attempt_: int = 1) -> MemoryMeasured:
    """A line about a step that reserved so much, as an event."""
    text = line(step=step, breakdown=gpu() | {"reservedBytes": reserved}, peakBytes={"cuda:0": 4})
    stream = make.memory({}, attempt_).originator_id
    event = attempt.take(JobHead(stream), text, Stamp(make.UNTIMED, "attempt"))
    assert isinstance(event, MemoryMeasured)
    return event


def record(*made: make.Made) -> dict[str, Any] | None:
    """What the record of a run that trains says of memory, after these events."""
    history = make.History(make.training(), *made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    found = documents.get(make.RUN)
    assert found is not None
    memory: dict[str, Any] | None = found["memory"]
    return memory


def test_the_record_has_the_step_that_reserved_the_most() -> None:
    """S63: of all attempts; a later step that reserved less changes nothing."""
    found = record(
        said(4000, 1), said(4200, 7), said(4100, 9), make.retried(2, 0), said(4150, 3, attempt_=2)
    )

    assert found is not None
    held = found["breakdown"]
    assert (held["step"], held["attempt"], held["reservedBytes"]) == (7, 1, 4200)
    assert held["peak"] == gpu()["peak"] | {"generationBytes": None}
    assert held["other"]["phase"] == "optimizer"


def test_a_run_that_measured_peaks_alone_has_no_breakdown() -> None:
    """S65: a worker process for each device promises none."""
    found = record(make.memory({"cuda:0": 5, "cuda:1": 6}))

    assert found == {"peakBytes": {"cuda:0": 5, "cuda:1": 6}, "breakdown": None}
    assert record() is None


def test_people_read_both_phases_side_by_side_in_80_columns() -> None:
    """S63, S64: 60 columns of text beside the labels; a part that was not measured says so."""
    gib = 2**30
    held = {
        "attempt": 1,
        "step": 1200,
        "device": "cuda:0",
        "sizeBytes": 80 * gib,
        "reservedBytes": 40 * gib,
        "peak": {
            "phase": "forward and backward",
            "weightsBytes": 15 * gib,
            "adapterBytes": 80 * 2**20,
            "gradientsBytes": 0,
            "generationBytes": None,
            "activationsBytes": 20 * gib,
            "optimizerStateBytes": 160 * 2**20,
            "overheadBytes": 5 * gib,
            "freeBytes": 39 * gib,
        },
        "other": {"phase": "optimizer step", "weightsBytes": 15 * gib, "activationsBytes": None},
    }

    lines = shown.breakdown(held).splitlines()

    assert lines[:6] == [
        "40.0 GiB of 80.0 GiB on cuda:0 reserved, in step 1,200",
        "peak first        forward and backward        optimizer step",
        "weights                       15.0 GiB              15.0 GiB",
        "adapter                       80.0 MiB          not measured",
        "gradients                          0 B          not measured",
        "activations                   20.0 GiB          not measured",
    ]
    assert [each.split("  ")[0] for each in lines[6:]] == [
        "optimizer state",
        "allocator+driver",
        "free",
    ]
    assert max(map(len, lines)) == 60
