"""The words of a command line: read without delay, and named where they cannot be meant."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from typing import Any

import pytest
import typer

from cli import settings, start
from cli.main import app
from tests import inside
from tests.cli_answers import record
from tests.cli_server import RUN, CannedServer, canned_server, environment, here, trainledger


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answer("GET", f"/v1/runs/{RUN}", record())
        server.answer("GET", "/v1/runs", {"runs": [record()], "next": None})
        yield server


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["get", RUN, "--json", "phase"], '{\n  "phase": "COMPLETED"\n}\n'),
        (["list", "--limit", "3", "--jq", ".runs | length"], "1\n"),
    ],
)
def test_runs_are_shown_without_the_library_that_reads_other_values(
    canned: CannedServer, arguments: list[str], shown: str
) -> None:
    """Texts and whole numbers are read as they are: pydantic takes as long as all of ours."""
    program = (
        "import sys; from cli.main import main; code = main();"
        "print(code, sorted({'pydantic', 'rich', 'jinja2'} & {*sys.modules}), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, "runs", *arguments],
        env=environment(canned.url),
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == (shown, "0 []\n")


@pytest.mark.parametrize("limit", ["0", "-1", "3.5", "\u0663", "many", ""])
def test_a_number_that_cannot_be_is_named_with_its_option(canned: CannedServer, limit: str) -> None:
    """D8: whoever reads it says the same of it."""
    done = here("runs", "list", "--limit", limit, url=canned.url)

    assert (done.returncode, done.stdout, canned.requests) == (2, "", [])
    assert done.stderr.startswith("error: Invalid value for '--limit': ")


@pytest.mark.parametrize(
    "arguments", [["get"], ["list", "--project"], ["metrics", RUN, "--fields"]]
)
def test_bytes_that_are_no_characters_are_wrong_use(
    canned: CannedServer, arguments: list[str]
) -> None:
    """C53: one sentence instead of a traceback, where a name is not of this locale."""
    done = trainledger("runs", *arguments, "ab\udcff", url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: 'ab\\udcff' has bytes that are no characters in this locale\n"
        "hint: a locale of UTF-8, such as LC_ALL=C.UTF-8, has every character\n"
    )


def test_a_token_of_odd_characters_is_not_repeated(canned: CannedServer) -> None:
    """What is wrong is said without the secret itself."""
    done = here("--token", "sécret", "runs", "get", RUN, url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the token holds characters that no token has\n"


# -- names that were written wrongly ---------------------------------------------------------------


@pytest.mark.parametrize(("written", "meant"), [("phse", "phase"), ("runid", "runId")])
def test_a_field_that_is_nearly_right_is_asked_about(written: str, meant: str) -> None:
    """S165: one letter is missing, or in another case."""
    done = here("runs", "get", RUN, "--json", written, url="http://127.0.0.1:9")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{written}' is no field of this command, did you mean '{meant}'? " in done.stderr


def test_a_measured_number_that_no_step_has_is_named_with_the_one_that_was_meant(
    canned: CannedServer,
) -> None:
    """I20: the table is shown all the same, since a number may come later."""
    rows = [{"step": 1, "attempt": 1, "measured": {}}]
    answer = {"runId": RUN, "position": 9, "steps": rows, "validations": []}
    canned.answer("GET", f"/v1/runs/{RUN}/metrics", answer)
    canned.answer("GET", f"/v1/runs/{RUN}", record(latest={"step": 1, "measured": {"loss": 2.0}}))

    done = here("runs", "metrics", RUN, "--fields", "los,entropy", url=canned.url)
    quiet = here("runs", "metrics", RUN, "--fields", "los", "-q", url=canned.url)

    assert (done.returncode, done.stdout) == (0, "step  los  entropy\n   1    -        -\n")
    assert done.stderr == (
        "hint: no row here has los; did you mean loss?\nhint: no row here has entropy\n"
    )
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_a_chart_has_buckets_of_its_own(canned: CannedServer) -> None:
    """S166: what would be ignored is refused."""
    done = here("runs", "metrics", RUN, "--plot", "--buckets", "4", url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --plot has as many buckets as fit: leave --buckets\n"
    assert canned.requests == []


# -- help ------------------------------------------------------------------------------------------


def paths(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    yield path
    for name, each in getattr(of, "commands", {}).items():
        yield from paths(each, (*path, name))


EVERY = list(paths(typer.main.get_command(app)))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_is_whole_and_fits_80_columns(path: tuple[str, ...]) -> None:
    """S166: every sentence to its end, none beyond the last column."""
    lines = inside.run([*path, "--help"], environment(None, COLUMNS="80")).stdout.split("\n")

    assert lines[0].startswith(f"Usage: {' '.join(('trainledger', *path))} ")
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines[1:] if line.endswith("...")] == []


def test_groups_stand_before_the_commands_that_are_in_none() -> None:
    """What a person starts with comes first: runs."""
    shown = inside.run(["--help"], environment(None)).stdout.partition("Commands:\n")[2]

    assert shown.split()[0] == "runs"
    assert shown.index("\n  import ") < shown.index("\n  sql ")


# -- how long an answer may take -------------------------------------------------------------------


def test_one_answer_may_take_10_seconds_where_nobody_says_otherwise() -> None:
    """D1: the limit of an answer has a name of its own; that of wait is for the whole of it."""
    assert settings.resolve(settings.Given()).request_timeout == 10.0
    assert settings.resolve(settings.Given(request_timeout="2m")).request_timeout == 120.0


def test_a_service_that_does_not_answer_in_time_is_not_reached(canned: CannedServer) -> None:
    """D1, D8: 5, and the sentence says which service."""
    canned.answers["GET", f"/v1/runs/{RUN}"] = lambda _: canned.closed.wait(30) and None

    done = here("runs", "get", RUN, "--request-timeout", "50ms", url=canned.url)

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"error: could not reach the service at {canned.url}: timed out")


def test_ctrl_c_while_the_command_still_loads_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """C52: 130, as at any later moment, and no traceback."""

    class Impatient(MetaPathFinder):
        """A person who presses Ctrl-C as soon as the tree of commands is looked for."""

        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "cli.main")
    monkeypatch.setattr(sys, "meta_path", [Impatient(), *sys.meta_path])

    assert start.main() == 130
