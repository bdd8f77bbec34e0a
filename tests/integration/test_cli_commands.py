"""Commands as processes: what they write, and the published exit codes."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_answers import record, step, story
from tests.cli_server import (
    RUN,
    TOKEN,
    CannedServer,
    Opening,
    Request,
    canned_server,
    command,
    environment,
    here,
    problem,
    trainledger,
)

NAN_METRICS = {
    "runId": RUN,
    "position": 9,
    "steps": [
        {"step": 1, "attempt": 1, "measured": {"loss": 1.5, "grad_norm": 0.5}},
        {"step": 2, "attempt": 1, "measured": {"loss": "NaN", "grad_norm": 0.5}},
        {"step": 3, "attempt": 1, "measured": {"loss": 1.1, "grad_norm": "Infinity"}},
        {"step": 4, "attempt": 1, "measured": {"grad_norm": 0.5}},
        {"step": 5, "attempt": 1, "measured": {"loss": "-Infinity"}},
    ],
    "validations": [],
}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def refuse_constant(name: str) -> None:
    """Strict JSON has no NaN and no Infinity."""
    raise AssertionError(name)


# -- exit codes --------------------------------------------------------------------------------


def test_what_does_not_exist_is_exit_3_with_a_hint(canned: CannedServer) -> None:
    """D8, I26: one sentence, and what to do."""
    missing = problem("run-not-found", "there is no run ffff", 404, hint="list them")
    canned.answer("GET", "/v1/runs/ffff", missing, 404)

    done = trainledger("runs", "get", "ffff", url=canned.url)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: there is no run ffff\nhint: list them\n"


def test_a_prefix_of_two_runs_lists_both(canned: CannedServer) -> None:
    """D8: refused by the service is exit 4, with the candidates."""
    two = ["abcd000000000000", "abcd111111111111"]
    ambiguous = problem("ambiguous-id", "abcd is the start of 2 runs", 409, candidates=two)
    canned.answer("GET", "/v1/runs/abcd", ambiguous, 409)

    done = trainledger("runs", "get", "abcd", url=canned.url)

    assert done.returncode == 4
    assert done.stderr == f"error: abcd is the start of 2 runs\n  {two[0]}\n  {two[1]}\n"


def test_an_answer_that_is_no_problem_document_is_exit_4(canned: CannedServer) -> None:
    """D8: something else listens there, or stands between."""
    canned.answer("GET", f"/v1/runs/{RUN}", b"<html>", 500)
    canned.answer("GET", "/v1/runs", b"<html>", 200)

    refused = here("runs", "get", RUN, url=canned.url)
    strange = here("runs", "list", url=canned.url)

    assert (refused.returncode, strange.returncode) == (4, 4)
    assert "answered 500" in refused.stderr
    assert "something that is not JSON" in strange.stderr


def test_nobody_there_is_exit_5(unused_url: str) -> None:
    """D8: the sentence names the URL."""
    done = trainledger("runs", "get", RUN, url=unused_url)

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"error: could not reach the service at {unused_url}: ")


@pytest.fixture
def unused_url() -> str:
    with canned_server() as server:
        return server.url


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs", "wiat", RUN], "Did you mean 'wait'?"),
        (["rums"], "Did you mean 'runs'?"),
        (["runs", "get"], "Missing argument 'RUN'"),
        (["runs", "get", ""], "a run is named by its id"),
        (["runs", "get", RUN, "--setings"], "--settings"),
        (["runs", "list", "-o", "wide"], "'wide' is not one of"),
        (["runs", "get", RUN, "--attempt", "1"], "add --settings"),
        (["runs", "get", RUN, "--attempt", "0"], "'--attempt': Input should be greater"),
        (["snapshots", "get", ""], "a snapshot is named by its id"),
        (["snapshots"], "Usage: trainledger snapshots"),
        (["runs", "start", "-f", "-", "--exit-status"], "--exit-status needs --wait"),
        (["runs", "start", "-f", "-", "--timeout", "1s"], "--timeout needs --wait"),
        (["runs", "wait", RUN, "--timeout", "soon"], "'soon', which is no duration"),
        (["runs", "start", "-f", "/no/plan.yaml"], "cannot be read"),
        (["--url", "localhost:80", "runs", "list"], "expected http:// or https://"),
        (["--url", "http://[::1", "runs", "list"], "expected http:// or https://"),
        (["runs"], "Usage: trainledger runs"),
    ],
)
def test_wrong_use_is_exit_2(arguments: list[str], said: str) -> None:
    """D8, D2: one sentence, and nothing is asked of any service."""
    done = here(*arguments, url="http://127.0.0.1:9")

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# -- reading -----------------------------------------------------------------------------------


def test_settings_and_wide_show_the_same_text(canned: CannedServer) -> None:
    """S19: two ways to the same four parts."""
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    settings = here("runs", "get", RUN, "--settings", url=canned.url).stdout

    assert settings == here("runs", "get", RUN, "-o", "wide", url=canned.url).stdout
    assert "Settings (* stated by the plan)\n" in settings


def test_json_is_the_whole_record_in_every_locale(canned: CannedServer) -> None:
    """S21, U19, C40: settings included, text unchanged but escaped."""
    hostile = record(name="x\x1b[2J\u202e\u0000", description="😀" + "long" * 2_500)
    canned.answer("GET", f"/v1/runs/{RUN}", hostile)
    c_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    pretty = trainledger("runs", "get", RUN, "-o", "json", url=canned.url, **c_locale)
    compact = here("runs", "get", RUN, "-o", "json-compact", url=canned.url)

    assert json.loads(pretty.stdout) == json.loads(compact.stdout) == hostile
    assert compact.stdout.count("\n") == 1
    assert pretty.stdout.isascii()


def test_metrics_as_json_are_strict_json_with_four_different_things(canned: CannedServer) -> None:
    """C35, U11: NaN, the infinities and absent, and nothing became a number."""
    canned.answer("GET", f"/v1/runs/{RUN}/metrics", NAN_METRICS)

    done = here("runs", "metrics", RUN, "-o", "json", url=canned.url)

    assert json.loads(done.stdout, parse_constant=refuse_constant) == NAN_METRICS


def test_metrics_ask_for_what_the_options_say(canned: CannedServer) -> None:
    """S83, I20: fields, from, to and limit reach the service; every row is a line."""
    canned.answer("GET", f"/v1/runs/{RUN}/metrics", NAN_METRICS)
    limits = ["--from", "1", "--to", "5", "--limit", "9"]

    done = here("runs", "metrics", RUN, "--fields", "loss, grad_norm", *limits, url=canned.url)

    assert canned.requests[-1].parameters == {
        "fields": ["loss, grad_norm"],
        "from": ["1"],
        "to": ["5"],
        "limit": ["9"],
    }
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["step", "loss", "grad_norm"],
        ["1", "1.5", "0.5"],
        ["2", "NaN", "0.5"],
        ["3", "1.1", "Infinity"],
        ["4", "-", "0.5"],
        ["5", "-Infinity", "-"],
    ]


def test_a_list_is_read_from_as_many_pages_as_it_takes(canned: CannedServer) -> None:
    """I2: filters on every page, never more runs than were asked for."""
    names = [f"{number:016x}" for number in range(150)]

    def page(request: Request) -> tuple[int, object]:
        first = int(request.parameters.get("before", ["0"])[0])
        last = first + int(request.parameters["limit"][0])
        found = [record(runId=name) for name in names[first:last]]
        return 200, {"runs": found, "next": str(last) if last < len(names) else None}

    canned.answers["GET", "/v1/runs"] = page

    done = here(
        "runs", "list", "--phase", "open", "--phase", "failed", "--limit", "120", "-o", "json",
        url=canned.url,
    )  # fmt: skip

    assert [run["runId"] for run in json.loads(done.stdout)["runs"]] == names[:120]
    assert [each.parameters["phase"] for each in canned.requests] == [["open", "FAILED"]] * 2
    assert canned.requests[1].parameters["limit"] == ["20"]


def test_events_are_lines_of_text_or_of_json(canned: CannedServer) -> None:
    """S51: the ledger's own words, from a position on."""
    canned.stream(RUN, Opening(tuple(story()[:3])))

    text = here("runs", "events", RUN, "--after", "1", url=canned.url).stdout.splitlines()
    lines = here("runs", "events", RUN, "-o", "json", url=canned.url).stdout.splitlines()

    assert [json.loads(line) for line in lines] == story()[:3]
    assert [line.split()[0] for line in text] == ["2", "3"]
    assert text[1].endswith("phaseChanged  phase=PREPARING waitingFor=null")


def test_cancel_returns_as_soon_as_it_is_accepted(canned: CannedServer) -> None:
    """I3: and a run that has ended is refused by the service."""
    path = f"/v1/runs/{RUN}:cancel"
    canned.answer("POST", path, {"runId": RUN, "phase": "CANCELLING"}, 202)
    accepted = here("runs", "cancel", RUN, url=canned.url)
    canned.answer("POST", path, problem("run-has-ended", "the run has ended", 409), 409)
    refused = here("runs", "cancel", RUN, url=canned.url)

    assert (accepted.returncode, accepted.stdout) == (0, f"run {RUN} is CANCELLING\n")
    assert (refused.returncode, refused.stderr) == (4, "error: the run has ended\n")


def test_info_is_readable_and_not_zero_until_ready(canned: CannedServer) -> None:
    """I22: the checks are shown either way."""
    said = {
        "version": "0.1.0",
        "backend": "sqlite",
        "home": "/home/x/.trainledger",
        "position": 1234,
        "projections": {"documents": {"position": 1234}},
        "devices": {"slots": ["cpu:0"], "free": []},
        "ready": True,
        "checks": [{"name": "storage", "ok": True, "detail": "SQLite 3.50"}],
    }
    canned.answer("GET", "/v1/info", said)
    ready = here("info", url=canned.url)
    canned.answer("GET", "/v1/info", {**said, "ready": False}, 503)
    starting = here("info", url=canned.url)

    assert (ready.returncode, starting.returncode) == (0, 4)
    assert "  ok      storage: SQLite 3.50\n" in ready.stdout
    assert "not ready\n" in starting.stdout


def test_an_audit_that_finds_a_fault_is_exit_1(canned: CannedServer) -> None:
    """D8: the verdict first, then stream and version of each fault."""
    whole = {"ok": True, "position": 9, "events": 9, "streams": 2, "seconds": 0.1, "faults": []}
    fault = {"verdict": "eventChanged", "stream": "run/x/a1", "version": 7, "detail": "digest"}
    canned.answer("POST", "/v1/audit", whole)
    good = here("audit", "verify", url=canned.url)
    canned.answer("POST", "/v1/audit", {**whole, "ok": False, "faults": [fault]})
    bad = here("audit", "verify", url=canned.url)

    assert (good.returncode, bad.returncode) == (0, 1)
    assert good.stdout.startswith("the ledger is whole: 9 events of 2 streams up to position 9")
    assert bad.stdout.splitlines()[1] == "  eventChanged run/x/a1 version 7: digest"


def test_verbose_says_each_request_on_stderr(canned: CannedServer) -> None:
    """S166: stdout stays data."""
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    done = here("--verbose", "runs", "get", RUN, "-o", "json", url=canned.url)

    assert json.loads(done.stdout)["runId"] == RUN
    assert done.stderr.startswith(f"GET {canned.url}/v1/runs/{RUN} (")


def test_a_flag_wins_over_the_environment(canned: CannedServer) -> None:
    """S167: flags over environment."""
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    done = here(
        "--url", f"{canned.url}/", "--token", "other", "runs", "get", RUN, url="http://127.0.0.1:9"
    )

    assert done.returncode == 0
    assert canned.requests[0].headers["authorization"] == "Bearer other"


def test_the_token_file_of_the_home_is_for_this_machine_only(
    canned: CannedServer, tmp_path: Path
) -> None:
    """S167: without a token of its own, a call to loopback shows the one in the home."""
    (tmp_path / "token").write_text(f"{TOKEN}-of-home\n")
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    here("runs", "get", RUN, url=canned.url, TRAINLEDGER_TOKEN="", TRAINLEDGER_HOME=str(tmp_path))

    assert canned.requests[0].headers["authorization"] == f"Bearer {TOKEN}-of-home"


def test_an_id_with_odd_characters_stays_one_part_of_the_path(canned: CannedServer) -> None:
    """U21: what a user types does not choose another route."""
    done = here("runs", "get", "../info?x", url=canned.url)

    assert done.returncode == 3
    assert canned.requests[0].path == "/v1/runs/..%2Finfo%3Fx"


def test_a_full_disk_is_a_sentence(canned: CannedServer) -> None:
    """D8: never a traceback."""
    canned.answer("GET", f"/v1/runs/{RUN}", record())
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("runs", "get", RUN),
            env=environment(canned.url),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (4, "error: No space left on device: the output\n")


# -- where the text goes -------------------------------------------------------------------------


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["runs", "wait", RUN, "-o", "json"], ["runs", "metrics", RUN, "-o", "json"]]
)
def test_a_reader_that_leaves_ends_it_quietly(
    canned: CannedServer, arguments: list[str], unbuffered: str
) -> None:
    """C52, U18: no traceback, no "Exception ignored", exit 0 or 141."""
    many = [step(10 + number, number) for number in range(1, 3_000)]
    canned.answer("GET", f"/v1/runs/{RUN}", record(phase="TRAINING"))
    canned.stream(RUN, Opening((*many, story()[-1] | {"position": 9_999})))
    canned.answer("GET", f"/v1/runs/{RUN}/metrics", {"steps": many})
    process = subprocess.Popen(
        command(*arguments),
        env=environment(canned.url, PYTHONUNBUFFERED=unbuffered),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None

    first = process.stdout.read(40)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert len(first) == 40
    assert process.wait(timeout=10) in (0, 141)
    assert said == ""


def test_a_locale_without_letters_is_no_reason_to_fail(canned: CannedServer) -> None:
    """C53: characters are replaced, nothing breaks."""
    canned.answer("GET", f"/v1/runs/{RUN}", record(name="损失 😀", description="é" * 100))

    done = trainledger(
        "runs", "get", RUN, url=canned.url, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert r"Name              \u635f\u5931 \U0001f600" in done.stdout


def test_nothing_in_a_pipe_is_an_escape_byte_or_shortened(canned: CannedServer) -> None:
    """U18, C53: ids and names whole, however narrow the terminal was."""
    summary = record(name="a long name " * 9)
    canned.answer("GET", "/v1/runs", {"runs": [summary], "next": None})

    wide = trainledger("runs", "list", url=canned.url, FORCE_COLOR="0").stdout
    narrow = trainledger("runs", "list", url=canned.url, COLUMNS="40").stdout

    assert summary["name"].strip() in wide
    assert RUN in narrow
    assert max(len(line) for line in narrow.splitlines()) <= 40
    assert "\x1b" not in wide + narrow


def test_hostile_words_of_the_service_are_shown_not_obeyed(canned: CannedServer) -> None:
    """U19: stderr is a terminal as well."""
    evil = problem("run-not-found", "no \x1b[2J run", 404, hint="\u202etry")
    canned.answer("GET", f"/v1/runs/{RUN}", evil, 404)

    said = here("runs", "get", RUN, url=canned.url).stderr

    assert said == "error: no \\x1b[2J run\nhint: \\u202etry\n"
