"""What every launcher keeps: one suite, real processes."""

import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.dispatch.launcher import JobState
from tests.jobs import Jobs, running_jobs

SHORT: list[dict[str, Any]] = [{"training": 3}, {"steps": 3, "seconds": 0.01}, {"model": True}]
LONG: list[dict[str, Any]] = [{"training": 0}, {"steps": 100_000, "seconds": 0.02}]
SAY_TRAINING = 'echo \'{"kind":"training"}\' >> $TRAINLEDGER_SPOOL'


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with running_jobs(tmp_path) as jobs:
        yield jobs


def kinds(jobs: Jobs) -> list[str]:
    return [each["kind"] for each in jobs.ingest.reports()]


def ended(**facts: Any) -> dict[str, Any]:
    return {"code": None, "signal": None, "oomKilled": False, "seen": True} | facts


def said_exit(jobs: Jobs) -> dict[str, Any]:
    """The exit that the server was told, without its time, after the runner is gone."""
    jobs.wait_until_gone()
    assert jobs.ingest.exit is not None
    facts = dict(jobs.ingest.exit)
    if facts["oomKilled"] is None:  # nobody counts on this machine
        facts["oomKilled"] = False
    return {name: value for name, value in facts.items() if name != "at"}


def test_a_job_that_succeeds_delivers_every_line_and_its_exit(jobs: Jobs) -> None:
    """cluster.md section 2: ENDED(exit)."""
    jobs.submit(SHORT)

    assert said_exit(jobs) == ended(code=0)
    assert kinds(jobs) == ["training", "step", "step", "step", "model", "completed"]
    assert jobs.state() == JobState.ENDED
    assert jobs.ingest.authorizations == {"Bearer a-token"}
    assert jobs.ingest.paths == {f"/v1/runs/{jobs.ref.run}/attempts/1/reports"}


@pytest.mark.parametrize(
    ("script", "facts", "last"),
    [
        ([{"refuse": "no row fits"}], {"code": 65}, "refused"),
        ([{"crash": "exception"}], {"code": 70}, "failed"),
        ([{"crash": "deviceMemory"}], {"code": 70}, "failed"),
        ([{"step": 1}, {"crash": "SIGKILL"}], {"signal": 9}, "step"),
        ([{"step": 1}, {"crash": "SIGTERM"}], {"signal": 15}, "step"),
        ([{"step": 1}, {"crash": "exit0"}], {"code": 0}, "step"),
    ],
)
def test_the_exit_says_how_the_worker_ended_after_its_last_line(
    jobs: Jobs, script: list[dict[str, Any]], facts: dict[str, Any], last: str
) -> None:
    """S70, S79: refusals, failures and deaths, each as it was."""
    jobs.submit(script)

    assert said_exit(jobs) == ended(**facts)
    assert kinds(jobs)[-1] == last


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 3"], 3), (["no-such-program"], 127), (["/"], 126)],
)
def test_any_program_may_be_the_trainer(jobs: Jobs, command: list[str], code: int) -> None:
    """design.md, engine: a command engine; one that cannot be started ends as in a shell."""
    jobs.submit(command=command)

    assert said_exit(jobs) == ended(code=code)


def test_a_worker_that_is_asked_to_stop_stops(jobs: Jobs) -> None:
    """cluster.md section 4 rule 8: the cooperative path first."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 3)

    jobs.ingest.request = "stop"

    assert said_exit(jobs) == ended(code=143)


def test_a_worker_that_is_asked_to_pause_saves_and_stops(jobs: Jobs) -> None:
    """I4: what it did is kept."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 3)

    jobs.ingest.request = "pause"

    assert said_exit(jobs) == ended(code=143)
    *_, step, snapshot = jobs.ingest.reports()
    assert (snapshot["kind"], snapshot["step"]) == ("snapshot", step["step"])


def test_a_request_that_was_withdrawn_presses_nobody_any_more(jobs: Jobs) -> None:
    """I4: a run whose pause failed goes on, and may be paused later."""
    grace = 0.4
    jobs.submit([*LONG[:1], {"steps": 2}, {"saveFails": True}, *LONG[1:]], stop_grace=grace)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 5)

    jobs.ingest.withdraw_after = "saveFailed"
    jobs.ingest.request = "pause"
    jobs.ingest.wait_for(lambda: kinds(jobs).count("saveFailed") == 2)
    failed = jobs.ingest.arrived[-1]
    jobs.ingest.wait_for(lambda: jobs.ingest.arrived[-1] > failed + 3 * grace)
    jobs.ingest.request = "pause"

    assert said_exit(jobs) == ended(code=143)
    assert kinds(jobs)[-2:] == ["step", "snapshot"]


def test_a_cancelled_job_ends_by_signal(jobs: Jobs) -> None:
    """S78, cluster.md section 2: cancel; a worker saves what it has."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 3)

    jobs.cancel()

    assert said_exit(jobs) == ended(code=143)
    assert kinds(jobs)[-1] == "snapshot"


def test_a_worker_that_does_not_know_the_signal_ends_by_it(jobs: Jobs) -> None:
    """S78, cluster.md section 2: cancel."""
    jobs.submit(command=["sh", "-c", f"{SAY_TRAINING}; sleep 60 & wait"])
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)

    jobs.cancel()

    assert said_exit(jobs) == ended(signal=signal.SIGTERM)


@pytest.mark.parametrize("state", ["starting", "waiting for the server"])
def test_a_job_that_is_cancelled_before_its_worker_began_begins_none(
    jobs: Jobs, state: str
) -> None:
    """cluster.md section 2: cancel; whichever comes first, the cancel or the runner."""
    jobs.ingest.hold()
    jobs.submit(LONG)
    if state != "starting":
        jobs.wait_for(lambda: jobs.ingest.held)

    jobs.cancel()
    jobs.ingest.let_go()

    assert said_exit(jobs) == ended(code=143)
    assert jobs.ingest.lines == []
    assert jobs.state() == JobState.ENDED


def _leave_the_runner(_: Jobs) -> None:
    pass


def _stop_the_runner(jobs: Jobs) -> None:
    jobs.stop_runner()


def _kill_the_runner(jobs: Jobs) -> None:
    jobs.kill_runner()


def _restart_the_server(jobs: Jobs) -> None:
    jobs.another_launcher()


def runs(process: psutil.Process) -> bool:
    """Whether ``process`` runs; a dead one may wait for its parent to take note."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "harm", [_leave_the_runner, _stop_the_runner, _kill_the_runner, _restart_the_server]
)
def test_nothing_of_a_killed_job_runs_any_more(jobs: Jobs, harm: Callable[[Jobs], None]) -> None:
    """U3, C44: the devices of an attempt that is lost are given to the next."""
    jobs.submit(command=["sh", "-c", f"trap '' TERM; sleep 600 & {SAY_TRAINING}; wait"])
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    processes = jobs.processes()
    assert len(processes) == 3
    harm(jobs)

    jobs.kill()

    assert not any(map(runs, processes))
    jobs.wait_until_gone()
    assert jobs.state() == JobState.GONE


def test_descendants_in_sessions_of_their_own_are_killed_as_well(jobs: Jobs) -> None:
    """U3: whatever may hold a device."""
    jobs.submit(command=["sh", "-c", f"setsid sleep 600 & {SAY_TRAINING}; wait"])
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    processes = jobs.processes()
    jobs.wait_for(lambda: processes[-1].name() == "sleep")

    jobs.kill()

    assert not any(map(runs, processes))


def test_a_job_that_is_only_starting_can_be_killed(jobs: Jobs) -> None:
    """U3: a runner that has not said who it is."""
    jobs.submit(LONG)
    jobs.kill()

    assert jobs.state() == JobState.GONE
    assert jobs.runners() == []


def test_killing_what_has_ended_changes_nothing(jobs: Jobs) -> None:
    """cluster.md section 2: the exit that was seen stays."""
    jobs.submit(SHORT)
    jobs.wait_until_gone()

    jobs.kill()

    assert jobs.state() == JobState.ENDED


def test_a_worker_that_heeds_nothing_is_killed_after_its_graces(jobs: Jobs) -> None:
    """cluster.md section 4 rule 8: the kill as the fallback."""
    script = f"trap '' TERM; {SAY_TRAINING}; sleep 60 & wait"
    jobs.submit(command=["sh", "-c", f"{script}; sleep 60"], stop_grace=0.2)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)

    jobs.ingest.request = "stop"

    assert said_exit(jobs) == ended(signal=signal.SIGKILL)


def test_a_job_is_started_once_however_often_it_is_submitted(jobs: Jobs) -> None:
    """cluster.md section 2: submit is idempotent on the attempt."""
    jobs.submit(LONG)
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    jobs.another_launcher()
    jobs.submit(LONG)

    assert len(jobs.runners()) == 1
    assert kinds(jobs).count("training") == 1
    assert jobs.state() == JobState.ALIVE


def test_a_job_that_ended_is_not_started_again(jobs: Jobs) -> None:
    """cluster.md section 2: submit is idempotent on the attempt."""
    jobs.submit(SHORT)
    jobs.wait_until_gone()
    before = list(jobs.ingest.lines)

    jobs.submit(SHORT)

    assert said_exit(jobs) == ended(code=0)
    assert (jobs.ingest.lines, jobs.ingest.exits) == (before, 2)


def test_a_worker_dies_with_its_runner_and_a_second_one_settles_the_job(jobs: Jobs) -> None:
    """cluster.md section 2: redeliver; nothing that the worker said is lost."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 5)
    worker = jobs.worker()

    jobs.kill_runner()
    jobs.wait_for(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    assert jobs.state() == JobState.GONE
    jobs.submit(LONG)

    assert said_exit(jobs) == ended(seen=False)
    assert jobs.ingest.lines == jobs.spool().splitlines()
    assert jobs.state() == JobState.ENDED


def test_children_that_a_killed_runner_left_behind_are_killed(jobs: Jobs) -> None:
    """cluster.md section 2: the job's process group goes as a whole."""
    script = "sleep 600 & echo $! > $TRAINLEDGER_OUTPUT/child.new; cd $TRAINLEDGER_OUTPUT;"
    jobs.submit(command=["sh", "-c", f"{script} mv child.new child; wait"])
    file = jobs.folder() / "output" / "child"
    jobs.wait_for(file.exists)
    child = psutil.Process(int(file.read_text()))

    jobs.kill_runner()
    jobs.submit(command=["sh", "-c", f"{script} wait"])

    assert said_exit(jobs) == ended(seen=False)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_children_that_outlive_their_worker_are_killed(jobs: Jobs) -> None:
    """cluster.md section 2: the job's process group goes as a whole."""
    jobs.submit(command=["sh", "-c", "sleep 600 & echo $! > $TRAINLEDGER_OUTPUT/child"])

    assert said_exit(jobs) == ended(code=0)
    pid = int((jobs.folder() / "output" / "child").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_exit_that_was_seen_before_its_runner_died_is_not_forgotten(jobs: Jobs) -> None:
    """cluster.md section 2: without the record an exit status would be lost."""
    jobs.ingest.stop()
    jobs.submit([{"step": 1}, {"refuse": "no row fits"}])
    jobs.wait_for((jobs.folder() / "exit.json").exists)
    jobs.kill_runner()

    jobs.ingest.start()
    jobs.submit([])

    assert said_exit(jobs) == ended(code=65)
    assert kinds(jobs) == ["step", "refused"]


def test_training_goes_on_while_the_server_is_away_for_the_whole_run(jobs: Jobs) -> None:
    """U5: local spool first, forward later."""
    jobs.ingest.stop()
    jobs.submit(SHORT)
    jobs.wait_for((jobs.folder() / "exit.json").exists)
    assert jobs.state() == JobState.ALIVE

    jobs.ingest.start()

    assert said_exit(jobs) == ended(code=0)
    assert kinds(jobs) == ["training", "step", "step", "step", "model", "completed"]


def test_a_server_that_comes_back_elsewhere_is_found(jobs: Jobs) -> None:
    """U5: a restarted server has another port."""
    jobs.submit([{"steps": 100, "seconds": 0.01}])
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 5)

    jobs.ingest.stop()
    jobs.ingest.start()

    assert said_exit(jobs) == ended(code=0)
    assert [each["step"] for each in jobs.ingest.reports()[:-1]] == list(range(1, 101))


def _drop_answers(jobs: Jobs) -> None:
    jobs.ingest.drop_answers = 5


def _forget_lines(jobs: Jobs) -> None:
    jobs.ingest.forget(after=2)


@pytest.mark.parametrize("misfortune", [_drop_answers, _forget_lines])
def test_every_line_is_taken_once_whatever_the_server_does(
    jobs: Jobs, misfortune: Callable[[Jobs], None]
) -> None:
    """engine.md section 9: answers get lost, and a gap is answered with the mark."""
    jobs.submit([{"steps": 100, "seconds": 0.01}])
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 5)

    misfortune(jobs)

    assert said_exit(jobs) == ended(code=0)
    assert jobs.ingest.lines == jobs.spool().splitlines()
    assert len(jobs.ingest.lines) == 101


@pytest.mark.parametrize("how", ["closed", "gone"])
def test_the_worker_of_a_closed_attempt_is_ended(jobs: Jobs, how: str) -> None:
    """cluster.md section 4 rule 4: a worker that is fenced exits."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: jobs.ingest.lines)
    worker = jobs.worker()

    setattr(jobs.ingest, how, True)

    jobs.wait_until_gone()
    assert not worker.is_running()
    assert jobs.ingest.exit is None


def test_a_job_whose_attempt_is_closed_starts_nothing(jobs: Jobs) -> None:
    """cluster.md section 4 rule 4: fencing."""
    jobs.ingest.gone = True

    jobs.submit(LONG)

    jobs.wait_until_gone()
    assert not (jobs.folder() / "worker.json").exists()


def test_lines_that_are_no_reports_are_forwarded_as_they_are(jobs: Jobs) -> None:
    """C32: the ledger rejects them; the runner judges nothing."""
    lines = [
        "日本語 🎉",
        "no JSON",
        "",
        '{"kind": "step", "step": NaN}',
        "a\tb\u2028c\x00",
        "\\xff",
    ]

    jobs.submit([{"line": line} for line in lines])

    assert said_exit(jobs) == ended(code=0)
    assert jobs.ingest.lines[:-1] == lines


def test_a_last_line_without_its_end_is_not_a_report(jobs: Jobs) -> None:
    """engine.md section 9: a torn line was never said."""
    jobs.submit(command=["sh", "-c", "printf 'whole\\ntorn' >> $TRAINLEDGER_SPOOL"])

    assert said_exit(jobs) == ended(code=0)
    assert jobs.ingest.lines == ["whole"]
    assert "4 bytes of the spool were not forwarded" in jobs.log("runner.log")


def test_a_job_that_says_nothing_gives_signs_of_life(jobs: Jobs) -> None:
    """design.md, liveness: a lease is renewed by any report, and by beats."""
    jobs.submit([{"silence": 60}])

    jobs.ingest.wait_for(lambda: jobs.ingest.beats >= 3)

    assert set(jobs.ingest.runner) == {"host", "pid", "startedAt"}
    assert jobs.ingest.runner["pid"] == jobs.runners()[0].pid


def test_no_dead_process_stays_behind(jobs: Jobs) -> None:
    """The server is the parent of its runners."""
    jobs.submit(SHORT)

    jobs.wait_until_gone()

    dead = [child for child in psutil.Process(os.getpid()).children() if child.status() == "zombie"]
    assert dead == []


def test_a_job_that_was_never_submitted_is_gone(jobs: Jobs) -> None:
    """cluster.md section 2: GONE."""
    assert jobs.state() == JobState.GONE
    jobs.cancel()
    jobs.kill()
    assert jobs.state() == JobState.GONE


def test_a_launcher_may_be_gone_before_its_runners(jobs: Jobs) -> None:
    """design.md, launcher: they outlive it, and Python is not to call that a mistake."""
    jobs.submit(LONG)
    jobs.ingest.wait_for(lambda: len(jobs.ingest.lines) > 3)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        jobs.forget_launchers()
        gc.collect()
    jobs.another_launcher()

    assert [str(each.message) for each in told if "subprocess" in str(each.message)] == []
    assert jobs.state() == JobState.ALIVE
    jobs.kill()
