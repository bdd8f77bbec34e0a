"""The runner's process: what its worker gets, and how long it is patient."""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.runner.settings import visible_devices
from tests.fake_ingest import FakeIngest
from tests.jobs import Jobs, running_jobs

TALK = ["sh", "-c", "while :; do echo talk >> $TRAINLEDGER_SPOOL; sleep 0.02; done"]
SHOW_ENVIRONMENT = ["sh", "-c", "env > $TRAINLEDGER_OUTPUT/environment; pwd"]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with running_jobs(tmp_path) as jobs:
        yield jobs


def environment(jobs: Jobs) -> dict[str, str]:
    """What the worker found in its environment."""
    jobs.wait_until_gone()
    lines = (jobs.folder() / "output" / "environment").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_worker_finds_what_its_contract_promises(jobs: Jobs, tmp_path: Path) -> None:
    """design.md, engine: the variables of a worker; I5: what it goes on from; S36: the cache."""
    given = {"NCCL_DEBUG": "INFO", "TRAINLEDGER_RESTORE": "/restored"}
    jobs.submit(command=SHOW_ENVIRONMENT, environment=given)

    found = environment(jobs)
    folder = jobs.folder()
    promised = {name: found[name] for name in found if name.startswith("TRAINLEDGER_")}
    assert promised == {
        "TRAINLEDGER_RUN": jobs.ref.run,
        "TRAINLEDGER_ATTEMPT": "1",
        "TRAINLEDGER_RANK": "0",
        "TRAINLEDGER_SPOOL": str(folder / "spool" / "rank0.jsonl"),
        "TRAINLEDGER_PLAN": str(folder / "plan.json"),
        "TRAINLEDGER_OUTPUT": str(folder / "output"),
        "TRAINLEDGER_CONTROL": str(folder / "control.json"),
        "TRAINLEDGER_RESTORE": "/restored",
        "TRAINLEDGER_CACHE": str(tmp_path / "cache" / "rows"),
        "TRAINLEDGER_DATASETS": str(tmp_path / "datasets"),
        "TRAINLEDGER_SLOTS": "cpu:0",
    }
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["PYTHONUNBUFFERED"] == "1"
    assert found["CUDA_VISIBLE_DEVICES"] == ""


def test_the_worker_gets_no_secret_of_the_server(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md, HTTP: a worker token is the runner's alone."""
    monkeypatch.setenv("TRAINLEDGER_TOKEN", "the-servers-own")
    monkeypatch.setenv("DATABASE_PASSWORD", "the-servers-own")
    monkeypatch.setenv("TRAINLEDGER_RESTORE", "the-servers-own")
    monkeypatch.setenv("HF_HOME", "/models")

    jobs.submit(command=SHOW_ENVIRONMENT)

    found = environment(jobs)
    assert found["HF_HOME"] == "/models"
    assert not {"the-servers-own", jobs.ingest.token} & set(found.values())


def test_a_job_folder_is_its_owners_alone(jobs: Jobs) -> None:
    """design.md, HTTP: the token in it is a secret."""
    jobs.submit([])
    jobs.wait_until_gone()

    assert jobs.folder().stat().st_mode & 0o777 == 0o700
    assert (jobs.folder() / "job.json").stat().st_mode & 0o777 == 0o600


def test_a_command_starts_in_the_folder_that_its_plan_names(jobs: Jobs, tmp_path: Path) -> None:
    """design.md, engine: a command engine."""
    there = tmp_path / "there"
    there.mkdir()

    jobs.submit(command=["pwd"], directory=str(there))

    jobs.wait_until_gone()
    assert jobs.log("worker.log") == f"{there}\n"


def test_a_command_that_is_not_there_says_so_in_its_log(jobs: Jobs) -> None:
    """S79: why it did not start can be found out."""
    jobs.submit(command=["no-such-program"])

    jobs.wait_until_gone()
    assert "could not be started" in jobs.log("worker.log")
    assert "no-such-program" in jobs.log("worker.log")


@pytest.mark.parametrize(
    ("devices", "visible"),
    [
        (("cuda:1",), "1"),
        (("cuda:0", "cuda:3"), "GPU-aa,3"),
        (("cpu:0",), ""),
    ],
)
def test_a_worker_sees_its_devices_only(devices: tuple[str, ...], visible: str) -> None:
    """design.md, dispatch: a claim of devices, by UUID where it is known."""
    assert visible_devices(devices, {"cuda:0": "GPU-aa"}) == visible


def test_a_report_is_on_its_way_within_milliseconds(jobs: Jobs) -> None:
    """U5: followers see a step when it happens."""
    jobs.submit([{"steps": 100, "seconds": 0.01}])
    jobs.wait_until_gone()

    said = [report["at"] for report in jobs.ingest.reports()]
    delays = [came - at for came, at in zip(jobs.ingest.arrived, said, strict=True)]
    assert 0 < statistics.median(delays) < 0.05


@pytest.mark.parametrize("asked", ["stop", "pause"])
def test_a_request_is_written_where_the_worker_looks(jobs: Jobs, asked: str) -> None:
    """I4, design.md, engine: the control file holds the newest request."""
    jobs.submit([{"steps": 100_000, "seconds": 0.02}])
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)

    jobs.ingest.request = asked

    jobs.wait_until_gone()
    assert jobs.control() == {"request": asked, "serial": 1}
    assert jobs.ingest.exit is not None
    assert jobs.ingest.exit["code"] == 143


@pytest.mark.parametrize("asked", ["stop", "pause"])
def test_a_job_that_is_to_end_before_its_worker_began_begins_none(jobs: Jobs, asked: str) -> None:
    """I4: its devices are free at once."""
    jobs.ingest.request = asked

    jobs.submit([{"training": 0}])

    jobs.wait_until_gone()
    assert jobs.ingest.lines == []
    assert jobs.ingest.exit is not None
    assert jobs.ingest.exit["code"] == 143


def serial_of(jobs: Jobs, request: str | None) -> int:
    """Number of a request that is made now, as the worker sees it."""
    jobs.ingest.request = request
    jobs.wait_for(lambda: jobs.control().get("request", "none yet") == request)
    serial: int = jobs.control()["serial"]
    return serial


def test_every_change_of_the_request_reaches_the_worker(jobs: Jobs) -> None:
    """I4: a request may be withdrawn, and there may be another."""
    jobs.submit(command=TALK, stop_grace=60.0)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    assert jobs.control() == {}

    assert [serial_of(jobs, each) for each in ("pause", None, "pause", "stop")] == [1, 2, 3, 4]


def test_a_delivery_that_the_server_did_not_take_withdraws_nothing(jobs: Jobs) -> None:
    """I4: only its word does."""
    jobs.submit(command=TALK, stop_grace=60.0)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 3)
    jobs.ingest.request = "pause"
    jobs.wait_for(jobs.control)

    jobs.ingest.forget(after=1)

    jobs.ingest.wait_for(lambda: 409 in jobs.ingest.statuses)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 6)
    assert jobs.control() == {"request": "pause", "serial": 1}


def test_a_request_that_found_no_room_on_the_disk_is_written_once_there_is_some(
    jobs: Jobs,
) -> None:
    """I4: a disk is full just when saving fails."""
    block = "mkdir $TRAINLEDGER_CONTROL.new; " + TALK[-1]
    jobs.submit(command=["sh", "-c", block], stop_grace=60.0)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    jobs.ingest.request = "pause"
    deliveries = len(jobs.ingest.statuses)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.statuses) > deliveries + 3)
    assert jobs.control() == {}

    (jobs.folder() / "control.json.new").rmdir()

    jobs.wait_for(jobs.control)
    assert jobs.control() == {"request": "pause", "serial": 1}


def a_job(home: Path, ingest: FakeIngest, **facts: Any) -> Path:
    """A job folder that no launcher made."""
    job = {
        "run": "00000000000000bb",
        "kind": "attempt",
        "number": 2,
        "command": ["true"],
        "directory": None,
        "devices": [],
        "environment": {},
        "token": ingest.token,
        "serverFile": str(home / "server.json"),
        "stopGraceSeconds": 1.0,
        "patienceSeconds": 0.3,
    }
    (home / "plan.json").write_text("{}")
    (home / "job.json").write_text(json.dumps(job | facts))
    return home


def run(folder: Path) -> int:
    """The exit code of a runner."""
    command = [sys.executable, "-m", "engine.runner", str(folder)]
    return subprocess.run(command, check=False, timeout=30).returncode


def test_patience_with_a_server_that_never_comes_has_an_end(tmp_path: Path) -> None:
    """design.md, engine: patienceSeconds after the worker's end."""
    folder = a_job(tmp_path, FakeIngest(tmp_path))
    began = time.monotonic()

    code = run(folder)

    assert code == 75
    assert time.monotonic() - began > 0.3
    assert json.loads((folder / "exit.json").read_text())["code"] == 0


def test_a_runner_gives_up_on_a_server_that_does_not_know_it(tmp_path: Path) -> None:
    """design.md, engine: 404 counts as closed once the worker has ended."""
    with FakeIngest(tmp_path) as ingest:
        ingest.refuse_with = 404

        code = run(a_job(tmp_path, ingest, patienceSeconds=600))

    assert code == 0
    assert ingest.exit is None


def test_a_job_whose_folder_was_removed_ends_with_its_worker(jobs: Jobs, tmp_path: Path) -> None:
    """Nobody is left who could want what it reports."""
    jobs.submit([{"silence": 600}], stop_grace=0.2)
    jobs.ingest.wait_for(lambda: jobs.ingest.beats)
    (runner,), worker = jobs.runners(), jobs.worker()

    jobs.ingest.stop()
    shutil.rmtree(tmp_path / "attempts")

    runner.wait(20)
    assert not worker.is_running()


def test_a_job_that_was_cancelled_before_its_runner_was_there_begins_no_worker(
    tmp_path: Path,
) -> None:
    """cluster.md section 2: a cancel holds from the submission on."""
    with FakeIngest(tmp_path) as ingest:
        folder = a_job(tmp_path, ingest, command=["touch", str(tmp_path / "began")])
        (folder / "cancel.json").write_text("{}")

        assert run(folder) == 0
        (folder / "cancel.json").unlink()
        assert run(folder) == 0  # settled, and not begun later either

    assert ingest.exit is not None
    assert (ingest.exit["code"], ingest.exit["seen"]) == (143, True)
    assert not (tmp_path / "began").exists()


def test_a_second_runner_for_a_job_leaves_at_once(jobs: Jobs) -> None:
    """cluster.md section 2: one runner per job folder."""
    jobs.submit([{"silence": 60}])
    jobs.ingest.wait_for(lambda: jobs.ingest.beats)
    before = (jobs.folder() / "runner.json").read_text()

    assert run(jobs.folder()) == 0

    assert (jobs.folder() / "runner.json").read_text() == before
    assert len(jobs.runners()) == 1


@pytest.mark.parametrize("name", ["exit", "control"])
def test_a_disk_that_takes_no_more_notes_does_not_hide_how_a_worker_ended(
    jobs: Jobs, name: str
) -> None:
    """U5: the server is told all the same."""
    block = f"mkdir $(dirname $TRAINLEDGER_PLAN)/{name}.json.new"
    say = 'echo \'{"kind":"training"}\' >> $TRAINLEDGER_SPOOL'
    jobs.submit(command=["sh", "-c", f"{block}; {say}; sleep 60 & wait"], stop_grace=0.1)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)

    jobs.ingest.request = "stop"

    jobs.wait_until_gone()
    assert jobs.ingest.exit is not None
    assert jobs.ingest.exit["signal"] == 15


def test_many_lines_travel_in_batches(jobs: Jobs) -> None:
    """U6: a burst loses nothing."""
    program = (
        "import os; spool = open(os.environ['TRAINLEDGER_SPOOL'], 'a')\n"
        'for step in range(50_000): print(\'{"kind":"restore","step":%d}\' % step, file=spool)'
    )

    jobs.submit(command=[sys.executable, "-c", program])

    jobs.wait_until_gone()
    assert [report["step"] for report in jobs.ingest.reports()] == list(range(50_000))
    assert len(jobs.ingest.statuses) < 100
