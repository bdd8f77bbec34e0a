"""``runs pause`` and ``runs resume``: a required choice, and a verdict that can be waited for."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli_answers import event, record, story, story_of_a_pause
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
from tests.product import eventually

PAUSE = f"/v1/runs/{RUN}:pause"
RESUME = f"/v1/runs/{RUN}:resume"
ASKED = {"checkpoint": "save", "requestedAt": "x", "resourcesReleased": False, "failed": None}
PAUSING = {"runId": RUN, "phase": "PAUSING", "pause": ASKED}
PAUSED = {"runId": RUN, "phase": "PAUSED", "pause": ASKED | {"resourcesReleased": True}}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answer("POST", PAUSE, PAUSING, 202)
        server.answer("POST", RESUME, {"runId": RUN, "phase": "WAITING"}, 202)
        server.answer("GET", f"/v1/runs/{RUN}", record(phase="TRAINING", position=3))
        yield server


def pause(canned: CannedServer, *options: str) -> "subprocess.CompletedProcess[str]":
    return here("runs", "pause", RUN, "--checkpoint", "save", *options, url=canned.url)


def test_without_a_choice_both_are_named_and_explained(canned: CannedServer) -> None:
    """I4: exit 2, and nothing is asked of the service."""
    done = here("runs", "pause", RUN, url=canned.url)
    wrong = here("runs", "pause", RUN, "--checkpoint", "now", url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    head, save, latest = done.stderr.splitlines()
    assert head.startswith("error: --checkpoint is needed")
    assert save.split()[0] == "save"
    assert "keep them" in save
    assert latest.split()[0] == "latest"
    assert "give them up" in latest
    assert wrong.returncode == 2
    assert "'now' is not one of 'save', 'latest'" in wrong.stderr
    assert canned.requests == []


@pytest.mark.parametrize("choice", ["save", "latest"])
def test_a_pause_returns_as_soon_as_it_is_accepted(canned: CannedServer, choice: str) -> None:
    """I4."""
    done = here("runs", "pause", RUN, "--checkpoint", choice, url=canned.url)

    assert (done.returncode, done.stdout) == (0, f"run {RUN} is PAUSING\n")
    assert canned.asked("POST", PAUSE)[0].body == {"checkpoint": choice}


def test_the_json_of_a_pause_has_what_was_asked_for(canned: CannedServer) -> None:
    """I4: ``pause.resourcesReleased``."""
    assert json.loads(pause(canned, "-o", "json").stdout) == PAUSING


def test_a_refused_pause_is_exit_4_with_the_way_out(canned: CannedServer) -> None:
    """I4, D8."""
    nothing = problem("refused", "run x holds nothing", 409, hint="pause it with --checkpoint save")
    canned.answer("POST", PAUSE, nothing, 409)

    done = pause(canned)

    assert done.returncode == 4
    assert done.stderr == "error: run x holds nothing\nhint: pause it with --checkpoint save\n"


def paused_at_last(canned: CannedServer) -> None:
    """Serve a run whose pause succeeds."""
    records = iter([record(phase="TRAINING", position=10)])
    final = record(phase="PAUSED", pause=PAUSED["pause"])
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(records, final))
    canned.stream(RUN, Opening(tuple(story_of_a_pause()[10:])))


def test_with_wait_it_returns_when_the_devices_are_free(canned: CannedServer) -> None:
    """I4: from before the request on, so that nothing is missed."""
    paused_at_last(canned)
    text = pause(canned, "--wait")
    paused_at_last(canned)
    as_json = pause(canned, "--wait", "-o", "json")

    assert (text.returncode, text.stdout) == (0, f"run {RUN} is PAUSED\n")
    assert text.stderr == f"resume it with `trainledger runs resume {RUN}`\n"
    assert json.loads(as_json.stdout) == PAUSED
    assert canned.asked("GET", f"/v1/runs/{RUN}/events")[0].parameters["after"] == ["10"]


def test_a_run_that_holds_no_devices_is_paused_at_once(canned: CannedServer) -> None:
    """I4: there is nothing to wait for."""
    canned.answer("POST", PAUSE, PAUSED, 202)

    done = pause(canned, "--wait")

    assert (done.returncode, done.stdout) == (0, f"run {RUN} is PAUSED\n")
    assert canned.asked("GET", f"/v1/runs/{RUN}/events") == []


def test_a_pause_that_failed_is_exit_1_with_the_reason(canned: CannedServer) -> None:
    """I4: a failed save never counts as success."""
    failed = event(12, "pauseFailed", reason="there is no room on the disk")
    canned.stream(RUN, Opening((event(11, "pauseRequested", checkpoint="save"), failed)))

    done = pause(canned, "--wait")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: run {RUN} was not paused and goes on: there is no room on the disk\n"
    )


def test_a_run_that_ends_before_it_is_paused_is_exit_1(canned: CannedServer) -> None:
    """I4: it may complete while it is asked."""
    canned.stream(RUN, Opening(tuple(story())))

    done = pause(canned, "--wait")

    assert done.returncode == 1
    assert done.stderr == f"error: run {RUN} ended COMPLETED before it was paused\n"


def test_ctrl_c_stops_the_following_and_not_the_pause(canned: CannedServer) -> None:
    """S58: exit 130, and what was asked for stays."""
    canned.stream(RUN, Opening((event(11, "phaseChanged", phase="PAUSING"),), "hold"))
    process = subprocess.Popen(
        command("runs", "pause", RUN, "--checkpoint", "save", "--wait"),
        env=environment(canned.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: canned.asked("GET", f"/v1/runs/{RUN}/events"), "the run is followed")

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)

    assert process.returncode == 130
    assert f"run {RUN} is being paused all the same" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "path", "question"),
    [
        (["runs", "pause", RUN, "--checkpoint", "save"], PAUSE, b"Pause run "),
        (["runs", "resume", RUN], RESUME, b"Resume run "),
        (["snapshots", "sweep", RUN], f"/v1/runs/{RUN}:sweep", b"Delete the snapshots of run "),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_terminal_is_asked_first(
    canned: CannedServer, *, words: list[str], path: str, question: bytes, force: bool
) -> None:
    """S164: consistent with cancel."""
    canned.answer("POST", f"/v1/runs/{RUN}:sweep", {"runId": RUN, "freedBytes": 0})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("-q", *words, *(["--force"] if force else [])),
        env=environment(canned.url),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    process.communicate(timeout=10)
    said = os.read(ours, 65_536)
    os.close(ours)

    assert len(canned.asked("POST", path)) == (1 if force else 0)
    assert process.returncode == (0 if force else 4)
    assert (question in said) == (not force)


def test_a_resumed_run_waits_for_devices(canned: CannedServer) -> None:
    """I5: returns as soon as it is accepted."""
    text = here("runs", "resume", RUN, url=canned.url)
    as_json = here("runs", "resume", RUN, "-o", "json", url=canned.url)

    assert (text.returncode, text.stdout) == (0, f"run {RUN} is WAITING\n")
    assert json.loads(as_json.stdout) == {"runId": RUN, "phase": "WAITING"}


def test_a_resumed_run_can_be_followed_to_its_end(canned: CannedServer) -> None:
    """I5, S50: as runs wait does."""
    events = story_of_a_pause()
    records = iter([record(phase="WAITING", position=events[15]["position"], observedStep=3)])
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: (200, next(records, record()))
    canned.stream(RUN, Opening(tuple(events[16:])))

    lines = here("runs", "resume", RUN, "--wait", url=canned.url).stdout.splitlines()

    assert lines[:3] == [
        f"run {RUN} is WAITING",
        "WAITING",
        "attempt 2 goes on from step 2 (snapshot 3f2a9c71bd04)",
    ]
    assert "COMPLETED" in lines
    assert "State" in lines


def test_a_run_that_is_not_paused_is_not_resumed(canned: CannedServer) -> None:
    """I5, D8."""
    refused = problem("refused", "only a paused run can be resumed", 409, hint="pause it first")
    canned.answer("POST", RESUME, refused, 409)

    done = here("runs", "resume", RUN, "--wait", url=canned.url)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "error: only a paused run can be resumed\nhint: pause it first\n"
