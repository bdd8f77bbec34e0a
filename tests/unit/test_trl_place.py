"""The place of a worker's process among those that train together."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.client import Reporter
from engine.errors import StoppedError
from engine.worker.trl import settings
from engine.worker.trl.__main__ import FAILED, WAITED, fail, main, wait_for_rank_0
from ledger import plan


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A job folder, as far as a worker reads it; SIGTERM is this process's own again afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    names = ("PLAN", "SPOOL", "CONTROL", "OUTPUT")
    for name, file in zip(names, ("plan.json", "spool", "control.json", "output"), strict=True):
        monkeypatch.setenv(f"TRAINLEDGER_{name}", str(tmp_path / file))
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def write_plan(job: Path, devices: int) -> None:
    document = {"baseModel": "m", "dataset": "d", "execution": {"devices": devices}}
    resolved, _ = plan.resolve(plan.parse(document | {"config": {"sequencesPerUpdate": 12}}))
    (job / "plan.json").write_text(json.dumps(resolved))


def be(monkeypatch: pytest.MonkeyPatch, rank: int, *, of: int, at: Path) -> None:
    """Have the environment of this rank."""
    named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": of, "TRAINLEDGER_RENDEZVOUS": at}
    for name, value in named.items():
        monkeypatch.setenv(name, str(value))


def kinds(job: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (job / "spool").read_text().splitlines()]


def test_fewer_processes_than_devices_train_nothing(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """engine.md section 1: a launcher once started one process for two, and said nothing."""
    write_plan(job, devices=2)

    assert main() == FAILED
    assert kinds(job) == ["failed"]
    assert "1 ranks began, the plan needs 2" in capsys.readouterr().err


def test_one_of_several_ranks_blames_nobody_for_what_it_does_not_know(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may only have lost its partner, whose end says more."""
    write_plan(job, devices=3)
    be(monkeypatch, 1, of=2, at=job / "rendezvous")

    assert main() == FAILED
    assert kinds(job) == []


@pytest.mark.parametrize(
    "words",
    [
        "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation",
        "Wait timeout",  # of the file where they meet
    ],
)
def test_a_rank_that_has_waited_in_vain_says_so_by_its_exit_code(
    job: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Gloo of torch 2.13 has no class for it; a worker of one process waits for nobody."""
    alone = fail(Reporter(job / "alone"), RuntimeError(words))
    be(monkeypatch, 1, of=2, at=job / "rendezvous")

    assert alone == FAILED
    assert fail(Reporter(job / "spool"), RuntimeError(words)) == WAITED
    assert fail(Reporter(job / "spool"), RuntimeError("Connection closed by peer")) == FAILED


def test_a_rank_waits_until_the_first_one_has_the_rows_or_it_is_stopped(tmp_path: Path) -> None:
    """I3: rank 0 may be tokenising for a long time, and another rank is asked to end."""
    asked: list[int] = []
    place = settings.Place(1, 2, tmp_path / "rendezvous")

    def go_on() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        wait_for_rank_0(place, go_on)
    (tmp_path / "rendezvous").touch()
    wait_for_rank_0(place, go_on)

    assert len(asked) == 2


def test_a_process_that_nobody_placed_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINLEDGER_RENDEZVOUS", "LOCAL_RANK", "TRAINLEDGER_SLOTS"):
        monkeypatch.delenv(name, raising=False)

    assert settings.place() == settings.ALONE
    assert settings.ALONE.leads
    assert (settings.cpu_name(), settings.gpu_name()) == ("cpu:0", "cuda:0")


def test_a_rank_is_called_after_its_slot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S15: a peak of memory has the name that the claim had."""
    be(monkeypatch, 1, of=2, at=tmp_path)
    monkeypatch.setenv("TRAINLEDGER_SLOTS", "cuda:2,cuda:5")

    place = settings.place()

    assert (place.rank, place.count, place.leads) == (1, 2, False)
    assert place.patience_seconds == 300
    assert (settings.cpu_name(), settings.gpu_name()) == ("cpu:1", "cuda:5")


def test_a_worker_on_a_processor_is_called_after_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """S15, S62: the device that has the peak is the one that the attempt claimed."""
    monkeypatch.setenv("TRAINLEDGER_SLOTS", "cpu:3")

    assert settings.cpu_name() == "cpu:3"
