"""``runs logs``: what a worker printed, shown and not obeyed."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli_answers import attempt, record
from tests.cli_server import (
    RUN,
    CannedServer,
    Opening,
    canned_server,
    command,
    environment,
    here,
    problem,
)

LOGS = f"/v1/runs/{RUN}/logs"


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def test_a_log_is_shown_without_a_control_byte(canned: CannedServer) -> None:
    """S81, U19: the last line may lack its end, and bytes that are no text are no fault."""
    canned.answer("GET", LOGS, b"one\r\n  two\x1b[2J\n\n\xff\tthree")

    done = here("runs", "logs", RUN, url=canned.url)

    assert done.returncode == 0
    assert done.stdout == "one\n  two\\x1b[2J\n\n\ufffd       three\n"


def test_a_progress_bar_is_shown_as_it_was_left(canned: CannedServer) -> None:
    """What a program overwrote on its own line was never meant to stay."""
    canned.answer("GET", LOGS, b"\r 10%|#  |\r100%|###|\ndone\n")

    done = here("runs", "logs", RUN, url=canned.url)

    assert done.stdout == "100%|###|\ndone\n"


def test_attempt_and_tail_reach_the_service(canned: CannedServer) -> None:
    """I6."""
    canned.answer("GET", LOGS, b"")

    done = here("runs", "logs", RUN, "--attempt", "2", "--tail", "5", url=canned.url)

    assert (done.returncode, done.stdout) == (0, "")
    assert canned.requests[-1].parameters == {"attempt": ["2"], "tail": ["5"]}


def test_an_attempt_that_there_is_not_is_exit_3(canned: CannedServer) -> None:
    """D8: the sentence names those that there are."""
    missing = problem("attempt-not-found", "run x has no attempt 3; it has 1 to 2", 404)
    canned.answer("GET", LOGS, missing, 404)

    done = here("runs", "logs", RUN, "--attempt", "3", url=canned.url)

    assert (done.returncode, done.stderr) == (3, "error: run x has no attempt 3; it has 1 to 2\n")


def test_a_followed_log_is_that_of_one_attempt_to_its_end(canned: CannedServer) -> None:
    """S81: another attempt that begins meanwhile has a log of its own."""
    records = iter([record(attempts=[attempt(closedAt=None)])])
    later = record(attempts=[attempt(), attempt(attempt=2, closedAt=None)])
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(records, later))
    canned.streams[LOGS] = [Opening(("one", "two"))]

    done = here("runs", "logs", RUN, "--follow", "--tail", "2", url=canned.url)

    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    asked = canned.asked("GET", LOGS)[0].parameters
    assert asked == {"attempt": ["1"], "tail": ["2"], "follow": ["true"]}


@pytest.mark.parametrize("end", ["close", "cut"])
def test_a_service_that_stops_is_not_the_end_of_the_attempt(canned: CannedServer, end: str) -> None:
    """D8: exit 5, and what had come is shown."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(attempts=[attempt(closedAt=None)]))
    canned.streams[LOGS] = [Opening(("one",), end)]

    done = here("runs", "logs", RUN, "--follow", url=canned.url)

    assert done.returncode == 5
    assert done.stdout.startswith("one\n")
    if end == "close":
        assert f"attempt 1 of run {RUN} goes on" in done.stderr


def test_a_run_without_an_attempt_has_no_log_to_follow(canned: CannedServer) -> None:
    """D8: the service says so."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(attempts=[]))
    canned.answer("GET", LOGS, problem("attempt-not-found", "no attempt yet", 404), 404)

    done = here("runs", "logs", RUN, "--follow", url=canned.url)

    assert (done.returncode, done.stderr) == (3, "error: no attempt yet\n")


def test_ctrl_c_ends_a_followed_log_quietly(canned: CannedServer) -> None:
    """S58: exit 130, the run goes on."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(attempts=[attempt(closedAt=None)]))
    canned.streams[LOGS] = [Opening(("one",), "hold")]
    process = subprocess.Popen(
        command("runs", "logs", RUN, "--follow"),
        env=environment(canned.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)

    assert (process.returncode, first) == (130, "one\n")
    assert said == f"stopped following; run {RUN} goes on\n"
