"""Finding the embedded server, and saying so when there is none."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.settings import server_command, server_environment
from tests.cli_answers import record
from tests.cli_server import RUN, CannedServer, canned_server, here

DEAD = 2**22 + 1  # beyond the largest process id


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def describe(home: Path, url: str, pid: int) -> None:
    """Leave what a server of this home would have left."""
    said = {"pid": pid, "url": url, "home": str(home), "startedAt": "x", "version": "0.1.0"}
    (home / "server.json").write_text(json.dumps(said))
    (home / "token").write_text("of-the-home\n")


def test_a_running_server_of_the_home_is_used_with_its_token(
    canned: CannedServer, tmp_path: Path
) -> None:
    """S167: the local default needs no setting at all."""
    describe(tmp_path, canned.url, os.getpid())
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    done = here("runs", "get", RUN, url=None, TRAINLEDGER_HOME=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert canned.requests[-1].headers["authorization"] == "Bearer of-the-home"


def test_the_status_is_what_the_server_said_of_itself(canned: CannedServer, tmp_path: Path) -> None:
    """S167: pid, url and home for scripts."""
    describe(tmp_path, canned.url, os.getpid())

    done = here("server", "status", "-o", "json", url=None, TRAINLEDGER_HOME=str(tmp_path))

    said = json.loads(done.stdout)
    assert (said["pid"], said["url"], said["running"]) == (os.getpid(), canned.url, True)


@pytest.mark.parametrize("left", ["nothing", "dead process", "half a file", "dead port"])
def test_what_an_old_server_left_is_no_running_server(
    canned: CannedServer, tmp_path: Path, left: str
) -> None:
    """D8: exit 5, and the JSON says that it does not run."""
    if left == "dead process":
        describe(tmp_path, canned.url, DEAD)
    if left == "half a file":
        (tmp_path / "server.json").write_text('{"pid": 1')
    if left == "dead port":
        describe(tmp_path, "http://127.0.0.1:9", os.getpid())

    done = here("server", "status", "-o", "json", url=None, TRAINLEDGER_HOME=str(tmp_path))

    assert done.returncode == 5
    assert json.loads(done.stdout) == {"home": str(tmp_path), "running": False}
    assert "no server is running" in done.stderr


def test_stopping_nothing_is_said_and_is_no_fault(tmp_path: Path) -> None:
    """D8: the wish is fulfilled already."""
    done = here("server", "stop", url=None, TRAINLEDGER_HOME=str(tmp_path))

    assert (done.returncode, done.stdout) == (0, f"no server was running for {tmp_path}\n")


def test_the_log_ends_with_its_last_lines_and_no_control_byte(tmp_path: Path) -> None:
    """U19: a log is shown, not obeyed."""
    (tmp_path / "server.log").write_text("one\ntwo\x1b[2J\nthree")

    done = here("server", "logs", "--lines", "2", url=None, TRAINLEDGER_HOME=str(tmp_path))

    assert done.stdout == "two\\x1b[2J\nthree\n"


def test_a_log_that_was_never_written_is_exit_3(tmp_path: Path) -> None:
    """D8: not found."""
    done = here("server", "logs", url=None, TRAINLEDGER_HOME=str(tmp_path))

    assert done.returncode == 3


def test_a_server_does_not_get_what_is_meant_for_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """U20: the token of a call stays with the call; and any other `api` is not ours."""
    monkeypatch.setenv("TRAINLEDGER_TOKEN", "secret")
    monkeypatch.setenv("TRAINLEDGER_URL", "http://elsewhere")

    environment = server_environment(tmp_path)

    assert "secret" not in environment.values()
    assert "TRAINLEDGER_URL" not in environment
    assert environment["TRAINLEDGER_HOME"] == str(tmp_path)
    assert server_command()[1:] == ["-P", "-m", "api"]
