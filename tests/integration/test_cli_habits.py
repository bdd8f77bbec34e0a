"""Habits of every command: fields, jq, templates, pages, contexts, completion, options anywhere."""

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.fields import FIELDS
from cli.main import app
from tests.answers import RECORD, ROUTES
from tests.cli_answers import record, story
from tests.cli_server import (
    RUN,
    TOKEN,
    CannedServer,
    Opening,
    canned_server,
    command,
    environment,
    here,
    problem,
)

OTHER = "fedcba9876543210"


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answer("GET", f"/v1/runs/{RUN}", record())
        server.answer("GET", "/v1/runs", {"runs": [record(), record(runId=OTHER)], "next": None})
        yield server


def said(*arguments: str, canned: CannedServer, **more: str) -> str:
    done = here(*arguments, url=canned.url, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- fields, jq, templates -----------------------------------------------------------------------


def test_json_with_some_fields_has_these_in_this_order(canned: CannedServer) -> None:
    """S165: of a list, of each of its rows."""
    one = json.loads(said("runs", "get", RUN, "--json", "phase, runId", canned=canned))
    two = said("runs", "list", "--json", "runId", "-o", "json-compact", canned=canned)

    assert list(one.items()) == [("phase", "COMPLETED"), ("runId", RUN)]
    assert two == f'[{{"runId":"{RUN}"}},{{"runId":"{OTHER}"}}]\n'


def test_json_without_fields_lists_them_and_asks_nobody() -> None:
    """S165: no run and no service is needed."""
    done = here("runs", "get", "--json=", url="http://127.0.0.1:9")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == list(FIELDS["runs get"].names)


def test_a_field_that_is_not_offered_is_wrong_use(canned: CannedServer) -> None:
    """S165, D8: it is named, and nothing is asked of any service."""
    done = here("runs", "cancel", RUN, "--json", "runId,phas", url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert "'phas' is no field of this command, did you mean 'phase'? --json= lists" in done.stderr
    assert canned.requests == []


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield " ".join((*path, name)), each


def test_every_command_that_writes_json_says_which_fields_it_offers() -> None:
    """S165: a new command belongs into cli/fields.py."""
    every = commands(typer.main.get_command(app))

    assert {name for name, each in every if hasattr(each.callback, "formats")} == set(FIELDS)


ANSWERS = {
    "runs start": "submit_run",
    "runs list": "list_runs",
    "runs metrics": "read_metrics",
    "runs compare": "compare_runs",
    "runs hparams": "read_hparams",
    "runs engine-config": "read_engine_config",
    "runs grafana": "link_to_grafana",
    "runs rollouts": "read_rollouts",
    "runs snapshots": "list_snapshots",
    "runs pause": "pause_run",
    "runs cancel": "cancel_run",
    "runs annotate": "annotate_run",
    "snapshots get": "get_snapshot",
    "snapshots pin": "pin_snapshot",
    "snapshots unpin": "unpin_snapshot",
    "snapshots sweep": "sweep_snapshots",
    "audit verify": "audit",
    "audit rebuild": "rebuild_projections",
    "datasets check": "check_dataset",
    "datasets create": "create_dataset",
    "datasets list": "list_datasets",
    "datasets get": "get_dataset",
    "capacity": "capacity",
    "info": "info",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_fields_of_a_command_are_members_of_the_answer(name: str) -> None:
    """S165: as docs/http.md has it."""
    offered, example = FIELDS[name], ROUTES[ANSWERS[name]].example
    rows = [row for each in offered.rows for row in example.get(each, [])]

    assert set(offered.names) - {"from", "to"} == set(rows[0] if rows else example)


def test_the_fields_of_a_run_are_those_of_its_record() -> None:
    """S165."""
    assert set(FIELDS["runs get"].names) == set(RECORD)


def test_jq_filters_the_json_and_writes_texts_as_they_are(canned: CannedServer) -> None:
    """S165: each result on a line of its own; what is no text is JSON."""
    several = said("runs", "get", RUN, "--jq", ".phase, .cost.split.wasted, .stated[:1]",
        canned=canned)  # fmt: skip
    chosen = said("runs", "list", "--json", "runId", "--jq", ".[].runId", canned=canned)
    nothing = said("runs", "list", "--jq", "empty", canned=canned)

    assert several.split("\n", 2)[:2] == ["COMPLETED", "null"]
    assert json.loads(several.split("\n", 2)[2]) == ["config.learningRate"]
    assert chosen == f"{RUN}\n{OTHER}\n"
    assert nothing == ""


def test_a_stream_is_filtered_event_by_event(canned: CannedServer) -> None:
    """S165, S51: as it comes."""
    canned.stream(RUN, Opening(tuple(story()[:3])))

    kinds = said("runs", "events", RUN, "--jq", ".kind", canned=canned)

    assert kinds == "runSubmitted\nattemptOpened\nphaseChanged\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jq", ".a["], "--jq '.a[': syntax error"),
        (["--jq", ".phase.x"], "--jq '.phase.x': Cannot index string"),
        (["-o", "template={{nope}}"], "'nope' is undefined"),
        (["-o", "template={% for %}"], "the template '{% for %}': "),
        (["-o", "template={{''.__class__.__mro__}}"], "the template"),
        (["-o", "template"], "'template' is not one of 'text'"),
    ],
)
def test_an_expression_that_cannot_be_applied_is_wrong_use(
    canned: CannedServer, arguments: list[str], words: str
) -> None:
    """S165, S166, D8: one sentence, no traceback, and a template reaches nothing but the answer."""
    done = here("runs", "get", RUN, *arguments, url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_template_is_filled_in_with_the_answer(canned: CannedServer) -> None:
    """S166: names are the members of the JSON, and values stand as JSON says them."""
    one = "template={{runId}} {{phase}} {{failure}} {{results.validationLoss.value}} {{stated}}"
    each = "template={{runId}} {{phase}}"
    loop = "template={% for run in runs %}{{run.runId[:4]}};{% endfor %}"
    canned.answer("GET", f"/v1/runs/{OTHER}", record(labels={"items": "x"}))

    assert said("runs", "get", RUN, "-o", one, canned=canned) == (
        f'{RUN} COMPLETED null 0.61 ["config.learningRate", "project", "validation.fraction"]\n'
    )
    assert said("runs", "list", "--json", "runId,phase", "-o", each, canned=canned) == (
        f"{RUN} COMPLETED\n{OTHER} COMPLETED\n"
    )
    assert said("runs", "list", "-o", loop, canned=canned) == "0123;fedc;\n"
    members = said("runs", "get", OTHER, "-o", "template={{labels.items}}", canned=canned)
    assert members == "x\n"


# -- options after a command ---------------------------------------------------------------------


def test_options_of_every_command_may_follow_it(canned: CannedServer) -> None:
    """S166: --verbose and --url behind the command as well as before it."""
    behind = here(
        "runs", "get", RUN, "--verbose", "--url", canned.url, "--jq", ".phase",
        url="http://127.0.0.1:9",
    )  # fmt: skip

    assert (behind.returncode, behind.stdout) == (0, "COMPLETED\n")
    assert behind.stderr.startswith(f"GET {canned.url}/v1/runs/{RUN} (")
    assert "--verbose" not in here("runs", "get", "--help", url=None).stdout


# -- pages ---------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, url: str, tmp_path: Path, lines: int = 20) -> tuple[str, str]:
    """What a terminal of so many lines shows, and what the pager got."""
    pager, got = tmp_path / "pager", tmp_path / "got"
    pager.write_text(f"#!/bin/sh\necho LESS=$LESS > {got}\ncat >> {got}\n")
    pager.chmod(0o700)
    main, worker = pty.openpty()
    variables = environment(url, PAGER=str(pager), LINES=str(lines), COLUMNS="80", TERM="xterm")
    with os.fdopen(main, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            command(*arguments), env=variables, stdin=worker, stdout=worker, stderr=worker
        )
        os.close(worker)
        shown = b""
        while part := _read(screen):
            shown += part
        assert process.wait(timeout=20) == 0
    return shown.decode(), got.read_text() if got.exists() else ""


def _read(screen: Any) -> bytes:
    try:
        return bytes(screen.read(65536))
    except OSError:  # the other end is closed
        return b""


def test_a_text_that_is_longer_than_the_terminal_goes_through_the_pager(
    canned: CannedServer, tmp_path: Path
) -> None:
    """S166: --page-mode auto, paged and buffered; a pipe is never paged."""
    low = on_a_terminal("runs", "get", RUN, url=canned.url, tmp_path=tmp_path)
    (tmp_path / "got").unlink()
    high = on_a_terminal("runs", "get", RUN, url=canned.url, tmp_path=tmp_path, lines=200)
    buffered = on_a_terminal(
        "runs", "get", RUN, "--page-mode", "buffered", url=canned.url, tmp_path=tmp_path
    )
    paged = on_a_terminal(
        "--page-mode", "paged", "runs", "get", RUN, url=canned.url, tmp_path=tmp_path, lines=200
    )

    assert low[0] == ""
    assert low[1].startswith("LESS=FRX\nState\n")
    assert high[0].startswith("State\r\n")
    assert buffered[0].startswith("State\r\n")
    assert (high[1], buffered[1]) == ("", "")
    assert (paged[0], paged[1][:15]) == ("", "LESS=RX\nState\n "[:15])


def test_what_a_person_asked_for_does_not_act_on_their_terminal(
    canned: CannedServer, tmp_path: Path
) -> None:
    """U19: escape bytes in a name are shown, where nobody pipes them on."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(name="a\x1b[2Jb\tc"))

    shown, _ = on_a_terminal("runs", "get", RUN, "--jq", ".name", url=canned.url, tmp_path=tmp_path)
    piped = said("runs", "get", RUN, "--jq", ".name", canned=canned)

    assert shown.startswith("a\\x1b[2Jb")
    assert piped == "a\x1b[2Jb\tc\n"


# -- completion ----------------------------------------------------------------------------------


def test_a_shell_is_told_how_to_complete() -> None:
    """S166: and the script that it is told asks this very command."""
    scripts = {
        shell: here("completion", shell, url=None).stdout for shell in ("bash", "zsh", "fish")
    }

    assert all("_TRAINLEDGER_COMPLETE=complete_" in script for script in scripts.values())
    done = here("completion", "tcsh", url=None)
    assert (done.returncode, "'tcsh' is not one of" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trainledger runs comp", ["compare"]),
        ("trainledger runs compare --spike", ["--spike-factor"]),
        ("trainledger runs get -o js", ["json", "json-compact"]),
        ("trainledger con", ["config"]),
    ],
)
def test_bash_completes_commands_options_and_formats(line: str, expected: list[str]) -> None:
    """S166: in a real bash."""
    words = line.split()
    script = (
        'eval "$(trainledger completion bash)"; '
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_trainledger_completion trainledger; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(command()[0]).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(None, PATH=path),
        capture_output=True,
        text=True,
        check=True,
    )

    assert [re.sub(r"\s+$", "", each) for each in done.stdout.split("\n") if each] == expected


def test_a_refusal_has_its_hint_on_stderr_whatever_is_wanted_of_the_json(
    canned: CannedServer,
) -> None:
    """S165: a filter sees answers only."""
    missing = problem("run-not-found", "there is no run ffff", 404, hint="list them")
    canned.answer("GET", "/v1/runs/ffff", missing, 404)

    done = here("runs", "get", "ffff", "--jq", ".phase", url=canned.url, TRAINLEDGER_TOKEN=TOKEN)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: there is no run ffff\nhint: list them\n"


def test_the_command_line_says_its_version_and_asks_no_service_for_it() -> None:
    """What anybody types first."""
    said = here("--version", url="http://127.0.0.1:9")

    assert (said.returncode, said.stdout) == (0, f"trainledger {version('trainledger')}\n")
