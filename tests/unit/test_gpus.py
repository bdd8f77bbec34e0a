"""The GPUs of a machine, as NVML tells of them: through a fake of the calls that are made."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.settings import Settings
from engine.dispatch import gpus
from engine.dispatch.gpus import Gpu
from engine.dispatch.launcher import JobRef, LaunchRequest
from engine.dispatch.local import LocalLauncher
from engine.runner.job import read_json
from ledger import plan

A, B = ("GPU-aa", "NVIDIA A", 2**34), ("GPU-bb", "NVIDIA B", 2**35)


class FakeNvml:
    """A driver with these GPUs, which may fail in one of its calls."""

    class NVMLError(Exception):
        """What the library raises, whatever went wrong."""

    def __init__(self, *found: tuple[str, str, int], fails_at: str = "") -> None:
        self.is_open = False
        self._found = found
        self._fails_at = fails_at

    def nvmlInit(self) -> None:  # noqa: N802 - the library's names
        self._fail("init")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        assert self.is_open
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._fail("count")
        return len(self._found)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return self._found[handle][0]

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self._found[handle][1]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        self._fail("memory")
        return SimpleNamespace(total=self._found[handle][2])

    def _fail(self, call: str) -> None:
        if call == self._fails_at:
            raise self.NVMLError


def found(nvml: Any) -> tuple[Gpu, ...]:
    return gpus.found(nvml)


def test_this_machine_is_asked_without_harm() -> None:
    """Here as well, where there may be no driver."""
    assert all(gpu.uuid.startswith("GPU-") for gpu in gpus.found())


def test_every_gpu_has_a_slot_and_its_own_name() -> None:
    """Index, UUID, model and memory, without torch."""
    nvml = FakeNvml(A, B)

    assert found(nvml) == (Gpu("cuda:0", *A), Gpu("cuda:1", *B))
    assert not nvml.is_open


@pytest.mark.parametrize("call", ["init", "count", "memory"])
def test_a_driver_that_does_not_answer_has_no_gpus(call: str) -> None:
    """The machine then has slots for its CPUs."""
    nvml = FakeNvml(A, fails_at=call)

    assert found(nvml) == ()
    assert not nvml.is_open


def test_slots_are_gpus_where_there_are_any_and_else_cpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a deployment states goes before both."""
    two = found(FakeNvml(A, B))
    monkeypatch.delenv("TRAINLEDGER_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "found", lambda: ())
    assert {slot.split(":")[0] for slot in Settings(home=tmp_path).devices} == {"cpu"}

    monkeypatch.setattr(gpus, "found", lambda: two)

    assert Settings(home=tmp_path).devices == ("cuda:0", "cuda:1")
    assert Settings(home=tmp_path, devices=("cuda:1",)).devices == ("cuda:1",)


def test_a_job_is_told_the_uuids_of_its_own_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A number of NVML's may be another of CUDA's; a UUID is the same for both."""
    launcher = LocalLauncher(tmp_path, found(FakeNvml(A, B)))
    monkeypatch.setattr(launcher, "_start_runner", lambda folder: SimpleNamespace(poll=lambda: 0))  # noqa: ARG005
    document = {"baseModel": "m", "dataset": "d", "engine": "sim"}
    resolved, _ = plan.resolve(plan.parse(document))

    for number, devices in enumerate((("cuda:1",), ("cpu:0",)), 1):
        launcher.submit(LaunchRequest(JobRef("aa", number), resolved, devices, "token"))

    jobs = [read_json(launcher.folder(JobRef("aa", number)) / "job.json") for number in (1, 2)]
    assert [job["uuids"] for job in jobs if job] == [{"cuda:1": "GPU-bb"}, {}]
