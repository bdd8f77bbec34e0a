"""``runs wait`` as a process: what it writes, and the code that it ends with."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli_answers import FAILURE, record, story, story_of_a_pause, story_of_two
from tests.cli_server import (
    RUN,
    CannedServer,
    Opening,
    canned_server,
    command,
    environment,
    here,
    trainledger,
)


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def run_that_ends(server: CannedServer, phase: str) -> None:
    """Serve a run that is training at first and has ended in ``phase`` afterwards."""
    failure = FAILURE if phase == "FAILED" else None
    answers = iter([record(phase="TRAINING", position=0)])
    final = record(phase=phase, failure=failure)
    server.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(answers, final))
    server.stream(RUN, Opening(tuple(story(phase))))


def run_that_goes_on(server: CannedServer) -> None:
    """Serve a run that says nothing more after its first steps."""
    server.answer("GET", f"/v1/runs/{RUN}", record(phase="TRAINING", position=0))
    server.stream(RUN, Opening(tuple(story()[:8]), "hold"))


@pytest.mark.parametrize(
    ("phase", "flags", "code"),
    [
        ("COMPLETED", ["--exit-status"], 0),
        ("FAILED", ["--exit-status"], 1),
        ("CANCELLED", ["--exit-status"], 1),
        ("FAILED", [], 0),
    ],
)
def test_the_exit_status_tells_how_the_run_ended(
    canned: CannedServer, phase: str, flags: list[str], code: int
) -> None:
    """S56, U10: only with the flag, and only for runs that did not complete."""
    run_that_ends(canned, phase)

    done = trainledger("runs", "wait", RUN, *flags, url=canned.url)

    assert done.returncode == code
    assert phase in done.stdout


def test_json_is_events_then_the_terminal_one_then_the_record(canned: CannedServer) -> None:
    """S51, S52, S53: each line parses alone, the last event is the only terminal one."""
    run_that_ends(canned, "FAILED")

    done = trainledger("runs", "wait", RUN, "-o", "json", url=canned.url)

    lines = done.stdout.split("\n")
    events = [json.loads(line) for line in lines[:10]]
    assert events == story("FAILED")
    assert [each["position"] for each in events if each.get("terminal")] == [10]
    assert events[-1]["failure"]["reason"] == FAILURE["reason"]
    assert lines[10] == "{"
    assert json.loads("\n".join(lines[10:])) == record(phase="FAILED", failure=FAILURE)


def test_json_compact_puts_the_record_on_one_line(canned: CannedServer) -> None:
    """S53: eleven lines, each of them JSON."""
    run_that_ends(canned, "COMPLETED")

    done = here("runs", "wait", RUN, "-o", "json-compact", url=canned.url)

    assert [json.loads(line) for line in done.stdout.splitlines()] == [*story(), record()]


def test_a_broken_stream_changes_nothing_in_the_output(canned: CannedServer) -> None:
    """S59, C51: reopened without a word, no event twice, none lost."""
    run_that_ends(canned, "COMPLETED")
    events = story()
    canned.stream(RUN, Opening(tuple(events[:5]), "cut"), Opening(tuple(events[5:])))

    done = here("runs", "wait", RUN, "-o", "json-compact", url=canned.url)

    assert [json.loads(line) for line in done.stdout.splitlines()][:10] == events
    assert done.stderr == ""


def test_text_tells_the_phases_and_ends_with_the_detail(canned: CannedServer) -> None:
    """S50: readable in a pipe."""
    run_that_ends(canned, "COMPLETED")

    lines = here("runs", "wait", RUN, url=canned.url).stdout.split("\n")

    assert [line for line in lines if line.isupper()] == [
        "TRAINING",
        "PREPARING",
        "TRAINING",
        "COMPLETED",
    ]
    assert "  step 3 of 3 (100%), loss 0.3333, 1.00 steps/s" in lines
    assert [line for line in lines if line in ("State", "Results", "Cost")] == [
        "State",
        "Results",
        "Cost",
    ]


def test_a_paused_run_is_waited_for(canned: CannedServer) -> None:
    """I4, S50: PAUSED does not end the wait, and the line says what does."""
    answers = iter([record(phase="TRAINING", position=0)])
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(answers, record()))
    canned.stream(RUN, Opening(tuple(story_of_a_pause())))

    text = here("runs", "wait", RUN, url=canned.url).stdout.splitlines()
    lines = here("runs", "wait", RUN, "-o", "json-compact", url=canned.url).stdout.splitlines()

    place = text.index(f"PAUSED: `trainledger runs resume {RUN}` goes on")
    assert text[place + 1] == "WAITING"
    assert "COMPLETED" in text
    assert [json.loads(line) for line in lines] == [*story_of_a_pause(), record()]


def test_a_run_that_is_paused_now_says_how_it_goes_on(canned: CannedServer) -> None:
    """I4: also where following begins in the pause."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(phase="PAUSED", position=14))
    canned.stream(RUN, Opening((), "hold"))

    done = trainledger("runs", "wait", RUN, "--timeout", "1s", url=canned.url)

    assert done.returncode == 124
    assert done.stdout == f"PAUSED: `trainledger runs resume {RUN}` goes on\n"


def test_a_run_that_goes_on_after_a_crash_tells_from_where(canned: CannedServer) -> None:
    """U17, S50: in a pipe, from the first attempt to the end."""
    answers = iter([record(phase="SUBMITTED", position=0, attempts=[], observedStep=0)])
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(answers, record()))
    canned.stream(RUN, Opening(tuple(story_of_two())))

    lines = here("runs", "wait", RUN, url=canned.url).stdout.splitlines()

    assert "attempt 1 ended at step 3: the training job stopped before it finished" in lines
    assert "snapshot 9b1c07e25a6f is damaged: a file is missing" in lines
    assert "attempt 2 goes on from step 2 (snapshot 3f2a9c71bd04)" in lines


def test_a_run_that_has_ended_is_shown_at_once(canned: CannedServer) -> None:
    """S50: nothing to wait for."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(phase="CANCELLED"))

    done = here("runs", "wait", RUN, "--exit-status", url=canned.url)

    assert done.returncode == 1
    assert "Phase             CANCELLED" in done.stdout


def test_after_the_timeout_the_run_goes_on(canned: CannedServer) -> None:
    """S54, S55, S57, D1: exit 124, and how to follow again."""
    run_that_goes_on(canned)

    done = trainledger("runs", "wait", RUN, "--timeout", "500ms", url=canned.url)

    assert done.returncode == 124
    assert done.stderr.startswith(f"the time is over; run {RUN} goes on\n")
    assert f"trainledger runs wait {RUN}" in done.stderr
    assert {request.method for request in canned.requests} == {"GET"}


@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_stops_the_following_and_not_the_run(canned: CannedServer, output: str) -> None:
    """S58, C52: exit 130, whole lines, no traceback, nothing sent to the service."""
    run_that_goes_on(canned)
    process = subprocess.Popen(
        command("runs", "wait", RUN, "-o", output),
        env=environment(canned.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()

    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=10)

    assert process.returncode == 130
    assert (first + rest).endswith("\n")
    assert f"run {RUN} goes on" in said
    assert f"trainledger runs wait {RUN}" in said
    assert "Traceback" not in said
    assert {request.method for request in canned.requests} == {"GET"}


def on_a_terminal(server: CannedServer, **more: str) -> str:
    """What ``runs wait`` writes when its output is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("runs", "wait", RUN),
        env=environment(server.url, **{"TERM": "xterm"} | more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:  # how Linux says that the other side has closed a terminal
        pass
    os.close(ours)
    assert process.wait(timeout=10) == 0
    return written.decode()


def test_a_terminal_gets_a_display_that_redraws_itself(canned: CannedServer) -> None:
    """S50: live, and the cursor is there again at the end."""
    run_that_ends(canned, "COMPLETED")

    written = on_a_terminal(canned)

    assert "\x1b[?25h" in written
    assert "step 3 of 3" in written or "TRAINING" in written
    assert "Results" in written


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour_gets_no_escape_byte(
    canned: CannedServer, plain: dict[str, str]
) -> None:
    """U18, C53: NO_COLOR and TERM=dumb mean plain lines."""
    run_that_ends(canned, "COMPLETED")

    written = on_a_terminal(canned, **plain)

    assert "\x1b" not in written
    assert "step 3 of 3" in written
