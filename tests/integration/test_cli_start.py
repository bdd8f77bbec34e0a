"""``runs start`` as a process: one submission, one run."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli_answers import record, story
from tests.cli_server import (
    RUN,
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

PLAN = "baseModel: ./model\ndataset: label\nengine: sim\n"


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answers["POST", "/v1/runs"] = accept
        yield server


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return str(path)


def accept(request: Request) -> tuple[int, object]:
    """Take a submission, or show what it would be."""
    if "dryRun" in request.parameters:
        resolved = {**request.body["plan"], "config": {"seed": 0}}
        return 200, {"resolved": resolved, "stated": ["baseModel", "dataset", "engine"]}
    return 201, {
        "runId": RUN,
        "submissionId": request.body["submissionId"],
        "created": True,
        "phase": "SUBMITTED",
        "position": 1,
    }


def test_start_prints_the_whole_id_and_says_how_to_follow(canned: CannedServer, plan: str) -> None:
    """I1: data on stdout, talk on stderr, and paths of the plan are absolute."""
    done = trainledger("runs", "start", "-f", plan, url=canned.url)

    assert (done.returncode, done.stdout) == (0, f"run {RUN} submitted\n")
    assert f"trainledger runs wait {RUN}" in done.stderr
    body = canned.requests[-1].body
    assert body["plan"]["baseModel"] == str(Path(plan).parent / "model")


def test_the_json_of_start_has_run_and_submission(canned: CannedServer) -> None:
    """I1: from stdin too, without a prompt, and quiet means nothing on stderr."""
    done = here("-q", "runs", "start", "-f", "-", "-o", "json", url=canned.url, stdin=PLAN)

    said = json.loads(done.stdout)
    assert (said["runId"], done.stderr) == (RUN, "")
    assert said["submissionId"] == canned.requests[-1].body["submissionId"]


def test_the_same_plan_twice_is_two_submissions(canned: CannedServer, plan: str) -> None:
    """I1: each call makes a token of its own."""
    for _ in range(2):
        here("runs", "start", "-f", plan, url=canned.url)

    first, second = canned.asked("POST", "/v1/runs")
    assert first.body["plan"] == second.body["plan"]
    assert first.body["submissionId"] != second.body["submissionId"]


def test_a_lost_answer_is_asked_for_again_with_the_same_token(
    canned: CannedServer, plan: str
) -> None:
    """I1: however often the answer is lost, there is one run."""

    def lose_twice(request: Request) -> tuple[int, object] | None:
        return None if len(canned.asked("POST", "/v1/runs")) < 3 else accept(request)

    canned.answers["POST", "/v1/runs"] = lose_twice

    done = here("runs", "start", "-f", plan, url=canned.url)

    tokens = {each.body["submissionId"] for each in canned.asked("POST", "/v1/runs")}
    assert (done.returncode, done.stdout) == (0, f"run {RUN} submitted\n")
    assert len(canned.asked("POST", "/v1/runs")) == 3
    assert len(tokens) == 1


def test_a_token_of_the_users_own_reaches_what_it_created(canned: CannedServer, plan: str) -> None:
    """I1: the words tell that nothing new was made."""
    before = {"runId": RUN, "submissionId": "mine", "created": False, "phase": "TRAINING"}
    canned.answer("POST", "/v1/runs", before)

    done = here("runs", "start", "-f", plan, "--submission-id", "mine", url=canned.url)

    assert done.stdout == f"run {RUN} was submitted before\n"
    assert canned.requests[-1].body["submissionId"] == "mine"


def test_a_refused_plan_names_every_field_that_is_wrong(canned: CannedServer, plan: str) -> None:
    """I1, I26: exit 4, a line for each fault, never asked again."""
    faults = ["config.learningrate is not a field of a plan", "dataset is missing"]
    refused = problem("plan-refused", "the plan has 2 faults", 422, faults=faults, hint="mend it")
    canned.answer("POST", "/v1/runs", refused, 422)

    done = here("runs", "start", "-f", plan, url=canned.url)

    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "error: the plan has 2 faults",
        *(f"  {fault}" for fault in faults),
        "hint: mend it",
    ]
    assert len(canned.requests) == 1


def test_faults_that_the_sentence_repeats_are_said_once(canned: CannedServer, plan: str) -> None:
    """I26: the title, and each fault on a line of its own."""
    faults = ["x is not a field of a plan", "dataset is missing"]
    refused = problem("plan-refused", "; ".join(faults), 422, faults=faults)
    canned.answer("POST", "/v1/runs", refused, 422)
    two = here("runs", "start", "-f", plan, url=canned.url).stderr
    canned.answer("POST", "/v1/runs", refused | {"detail": faults[0], "faults": faults[:1]}, 422)
    one = here("runs", "start", "-f", plan, url=canned.url).stderr

    assert two == "error: plan-refused\n  x is not a field of a plan\n  dataset is missing\n"
    assert one == "error: x is not a field of a plan\n"


def test_a_dry_run_shows_the_resolved_plan_and_creates_nothing(
    canned: CannedServer, plan: str
) -> None:
    """I1: YAML that is a plan again, with marks."""
    done = here("runs", "start", "-f", plan, "--dry-run", url=canned.url)

    assert yaml.safe_load(done.stdout)["config"] == {"seed": 0}
    assert "dataset: label  # stated\n" in done.stdout
    assert "  seed: 0\n" in done.stdout
    assert done.stderr == "dry run: nothing was created\n"
    assert [each.parameters for each in canned.requests] == [{"dryRun": ["true"]}]


def test_show_resolved_shows_it_and_then_starts(canned: CannedServer, plan: str) -> None:
    """I1: in JSON the plan goes to stderr, so that stdout stays JSON."""
    text = here("runs", "start", "-f", plan, "--show-resolved", url=canned.url)
    as_json = here("runs", "start", "-f", plan, "--show-resolved", "-o", "json", url=canned.url)

    assert text.stdout.endswith(f"  seed: 0\nrun {RUN} submitted\n")
    assert json.loads(as_json.stdout)["runId"] == RUN
    assert "  seed: 0\n" in as_json.stderr


def test_start_and_wait_in_json_is_the_output_of_wait(canned: CannedServer, plan: str) -> None:
    """S51, S53, S56: no line of start's own, and the exit code of the run."""
    canned.stream(RUN, Opening(tuple(story("FAILED"))))
    canned.answer("GET", f"/v1/runs/{RUN}", record(phase="FAILED"))

    done = here(
        "runs", "start", "-f", plan, "--wait", "--exit-status", "-o", "json-compact", url=canned.url
    )

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [*story("FAILED"), record(phase="FAILED")]
    assert done.returncode == 1


def test_start_and_wait_in_text_tells_the_whole_story(canned: CannedServer, plan: str) -> None:
    """S50: from the submission on."""
    canned.stream(RUN, Opening(tuple(story())))
    canned.answer("GET", f"/v1/runs/{RUN}", record())

    lines = here("runs", "start", "-f", plan, "--wait", url=canned.url).stdout.splitlines()

    assert lines[0] == f"run {RUN} submitted"
    assert [line for line in lines if line.isupper()] == [
        "SUBMITTED",
        "PREPARING",
        "TRAINING",
        "COMPLETED",
    ]


@pytest.mark.parametrize(
    ("answer", "flags", "posts"),
    [
        ("n\n", [], 0),
        ("\n", [], 1),
        ("", ["--force"], 1),
        ("", ["--disable-prompt"], 1),
        ("", ["env"], 1),
    ],
)
def test_a_terminal_is_asked_first(
    canned: CannedServer, plan: str, answer: str, flags: list[str], posts: int
) -> None:
    """S164, S168: Enter means yes; --force, the switch and its variable skip the question."""
    quiet = {"TRAINLEDGER_DISABLE_PROMPTS": "true"} if flags == ["env"] else {}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("runs", "start", "-f", plan, *[flag for flag in flags if flag != "env"]),
        env=environment(canned.url, **quiet),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    written, _ = process.communicate(timeout=10)
    said = os.read(ours, 65_536)
    os.close(ours)

    assert len(canned.asked("POST", "/v1/runs")) == posts
    assert process.returncode == (0 if posts else 4)
    assert (b"submitted" in written) == bool(posts)
    assert (b"Start a run of " in said) == (not flags)
