"""What holds the process while the tiny model trains on the CPU, byte by byte."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trl_runs import Line, a_plan, of_kind, saving, tiny_model, train_here

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

# Of the tiny model: embeddings of 384 words, shared with the head; 2 layers of 4 matrices for
# attention (4 heads, 2 for keys and values), 3 of the MLP, and 2 norms; a last norm; 2 tables of 8
# frequencies that rotary embeddings multiply with.
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3 + 64 * 2
WEIGHTS = 4 * (384 * 64 + 2 * LAYER + 64 + 2 * 8)
# Rank 4 on the 7 matrices of each layer: A reads what goes in, B writes what comes out.
ADAPTER = 4 * 2 * 4 * ((64 + 64) * 2 + (64 + 32) * 2 + (64 + 128) * 3)
TENSORS = 2 * 7 * 2
ADAMW = 2 * ADAPTER + 4 * TENSORS  # two moments of each weight, and the count of each tensor


@pytest.fixture(scope="module")
def breakdowns(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    folder = tmp_path_factory.mktemp("memory")
    document = saving(a_plan(tiny_model(folder / "tiny"), folder), microBatchSequences=4)
    lines = of_kind(train_here(folder / "run", document), "memory")
    return [line["breakdown"] | {"step": line["step"]} for line in lines if "breakdown" in line]


def test_the_parts_of_the_first_step_are_what_its_tensors_take(breakdowns: list[Line]) -> None:
    """S63: one micro-batch, so no gradient is there yet when most is kept, and no moment."""
    first, peak = breakdowns[0], breakdowns[0]["peak"]

    assert (first["step"], peak["phase"]) == (1, "forward and backward")
    assert peak["weightsBytes"] == WEIGHTS
    assert peak["adapterBytes"] == ADAPTER
    assert peak["gradientsBytes"] == 0
    assert peak["optimizerStateBytes"] == 0
    assert peak["activationsBytes"] > 4 * 40 * 64 * 4  # rows, tokens, width: one layer's input


def test_the_optimizers_step_has_gradients_and_its_state_and_no_activations(
    breakdowns: list[Line],
) -> None:
    """S64: the other phase of the same step, after the backward pass gave everything back."""
    other = breakdowns[0]["other"]

    assert other["phase"] == "optimizer step"
    assert other["weightsBytes"] == WEIGHTS
    assert other["gradientsBytes"] == ADAPTER
    assert other["optimizerStateBytes"] == ADAMW
    assert other["activationsBytes"] == 0


def test_parts_and_what_is_free_are_the_memory_of_the_machine(breakdowns: list[Line]) -> None:
    """S63: in every line, and in both phases."""
    assert breakdowns
    for each in breakdowns:
        for held in (each["peak"], each["other"]):
            parts = [value for name, value in held.items() if name.endswith("Bytes")]
            assert sum(parts) == each["sizeBytes"] > each["reservedBytes"] > 50_000_000


def test_activations_are_counted_once_and_without_parameters() -> None:
    """S63: x of 8 by 4 is kept twice, and what the square was made of once: 128 + 96 bytes."""
    torch = import_module("torch")
    gauges = import_module("engine.worker.trl.gauges")
    linear, x = torch.nn.Linear(4, 3, bias=False), torch.ones(8, 4)
    gauge = gauges.ProcessGauge(linear.parameters())
    parts = import_module("engine.worker.trl.breakdown").Parts(48, 0, 0, 0)

    with gauge.watch():
        loss = (linear(x) + linear(x)).square().sum()
    (sample,) = gauge.forward_made("passes", parts)
    loss.backward()

    assert sample.activations == 8 * 4 * 4 + 8 * 3 * 4
    assert gauge.end("passes", parts).activations == 0


def test_what_a_gpus_allocator_remembers_becomes_parts() -> None:
    """S63: of 3,120 allocated at the peak, 1,120 have a name; the names of torch's statistics."""
    breakdown = import_module("engine.worker.trl.breakdown")
    parts = breakdown.Parts(weights=1000, adapter=40, gradients=0, optimizer_state=80)
    stats = {"allocated_bytes.all.peak": 3120, "reserved_bytes.all.peak": 4000}

    made = import_module("engine.worker.trl.gauges").cuda_sample("passes", parts, stats)

    assert made == breakdown.Sample("passes", parts, 2000, 4000)


class FakeGauge:
    """A device whose next steps reserve these bytes; it counts the forward passes it watched."""

    kind = "cpu"
    is_cheap = False

    def __init__(self, *reserved: int) -> None:
        self._reserved: Iterator[int] = iter(reserved)
        self._now = 0
        self.watched = 0

    def device(self) -> Any:
        return import_module("engine.worker.trl.breakdown").Device("cpu:0", 10_000, 0)

    def reserved_bytes(self) -> int:
        return self._now

    def peak_bytes(self) -> dict[str, int]:
        return {"cpu:0": self._now}

    def watch(self) -> AbstractContextManager[None]:
        self.watched += 1
        return nullcontext()

    def begin(self) -> None:
        pass

    def next_step(self) -> None:
        self._now = next(self._reserved)

    def forward_made(self, phase: str, parts: Any) -> list[Any]:
        return [self.end(phase, parts)]

    def end(self, phase: str, parts: Any) -> Any:
        return import_module("engine.worker.trl.breakdown").Sample(phase, parts, 0, self._now)


def measured(*reserved: int) -> SimpleNamespace:
    """The steps that were watched, and what is told after each, of a training of one weight."""
    torch = import_module("torch")
    memory = import_module("engine.worker.trl.memory")
    model, gauge = torch.nn.Linear(1, 1), FakeGauge(*reserved)
    meter = memory.Meter(model, torch.optim.AdamW(model.parameters()), gauge=gauge)
    watched, told = [], []
    for step in range(1, len(reserved) + 1):
        before = gauge.watched
        gauge.next_step()
        meter.begin_step()
        with meter.forward():
            pass
        meter.end_passes()
        meter.end_step(step)
        watched += [step] * (gauge.watched - before)
        news = meter.news()
        told.append(None if news is None else (news.step, news.breakdown["reservedBytes"]))
    return SimpleNamespace(watched=watched, told=told, last=meter.news(growth=1.0))


def test_a_cpu_is_watched_at_first_and_after_it_grew() -> None:
    """S63: 3 steps, then the one after 2,300 of 2,100 were reserved; 2,150 is no reason."""
    seen = measured(2000, 2100, 2100, 2150, 2300, 2300, 2300)

    assert seen.watched == [1, 2, 3, 6]
    assert seen.told == [(1, 2000), None, None, None, None, (6, 2300), None]
    assert seen.last is None


def test_what_grew_a_little_is_told_at_the_end() -> None:
    """S63: the step that reserved the most, though 2,060 was no reason for a line of its own."""
    seen = measured(2000, 2060, 2040)

    assert seen.told == [(1, 2000), None, None]
    assert (seen.last.step, seen.last.breakdown["reservedBytes"]) == (2, 2060)


def test_an_evaluation_is_no_part_of_a_step() -> None:
    """S63: what is computed without gradients keeps nothing for a backward pass."""
    torch = import_module("torch")
    memory = import_module("engine.worker.trl.memory")
    model, gauge = torch.nn.Linear(1, 1), FakeGauge(2000)
    meter = memory.Meter(model, torch.optim.AdamW(model.parameters()), gauge=gauge)

    with torch.no_grad(), meter.forward():
        pass

    assert gauge.watched == 0


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/job\n", {"job/memory.max": "2000\n", "memory.max": "max\n"}, 2000),
        ("0::/job\n", {"job/memory.max": "max\n"}, None),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "3000\n"}, 3000),
        ("3:cpu:/\n", {}, None),
    ],
)
def test_the_size_of_a_process_is_what_its_control_group_may_have(
    tmp_path: Path, own: str, files: dict[str, str], limit: int | None
) -> None:
    """S63: the device of a CPU training; without a limit it is the machine's memory."""
    limit_bytes = import_module("engine.runner.memory").limit_bytes
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)

    assert limit_bytes(groups=tmp_path, own=tmp_path / "own") == limit
