"""Commands about branches: what they ask, what they show, and their exit codes."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli_answers import SAVED_AT_40, branch, record, story
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

CHILD = "fedcba9876543210"
ORIGIN = {"parent": RUN, "snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"}
BRANCH, LIST = f"/v1/runs/{RUN}:branch", f"/v1/runs/{RUN}/branches"
WORDS = ("runs", "branch", RUN, "--snapshot", "3f2a", "--steps", "5")
NOTE = "a preview creates nothing and reserves nothing"
REFUSAL = {"reason": "the source is damaged", "advice": "branch from another snapshot"}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answers["POST", BRANCH] = accept
        server.answers["GET", LIST] = in_states("created")
        yield server


def accept(request: Request) -> tuple[int, object]:
    """Take a branch, or show what it would be."""
    if "dryRun" in request.parameters:
        config = {"seed": 0, "maxSteps": 5}
        stated = ["config.maxSteps"]
        preview = {"resolved": {"config": config}, "stated": stated, "origin": ORIGIN}
        return 200, preview | {"steps": 5, "note": NOTE, "position": 77}
    return 202, {
        "submissionId": request.body["submissionId"],
        "state": "requested",
        "refusal": None,
        "childRunId": CHILD,
        "parentRunId": RUN,
        "origin": ORIGIN,
        "steps": 5,
        "position": 78,
    }


def in_states(*states: str, **facts: Any) -> Callable[[Request], tuple[int, object]]:
    """A branch that is further each time somebody looks."""
    left = list(states)

    def answer(_: Request) -> tuple[int, object]:
        state = left.pop(0) if len(left) > 1 else left[0]
        refusal = REFUSAL if state == "refused" else None
        row = branch(CHILD, state=state, refusal=refusal, **facts)
        return 200, {"runId": RUN, "branches": [row], "next": None}

    return answer


def trained(canned: CannedServer, end: str = "COMPLETED") -> None:
    """Have the child train to its end."""
    canned.stream(CHILD, Opening(tuple(story(end))))
    canned.answer("GET", f"/v1/runs/{CHILD}", record(runId=CHILD, phase=end))


# -- asking ----------------------------------------------------------------------------------------


def test_a_branch_prints_the_whole_id_and_how_to_follow_it(canned: CannedServer) -> None:
    """S136, S141, S160: data on stdout, talk on stderr; the printed token is usable (C54)."""
    done = trainledger(*WORDS, url=canned.url)

    (request,) = canned.asked("POST", BRANCH)
    token = request.body["submissionId"]
    assert (done.returncode, done.stdout) == (0, f"run {CHILD} requested\n")
    assert f"`trainledger runs branches {RUN} --submission {token}`" in done.stderr
    assert f"`trainledger runs wait {CHILD}`" in done.stderr
    assert request.body == {
        "snapshot": "3f2a",
        "steps": 5,
        "restore": "weights",
        "overrides": {},
        "submissionId": token,
    }


def test_every_option_reaches_the_service(canned: CannedServer, tmp_path: Path) -> None:
    """S144, S147, S161, S163: paths in the overrides are relative to their own folder."""
    changes = tmp_path / "lower.yaml"
    changes.write_text("config: {learningRate: 1.0e-5}\ndataset: ./rows.jsonl\n")
    labels = ("--config-name", "lower rate", "--description", "half of it")

    done = here(
        *(*WORDS, "--restore", "trainingState", "--overrides", str(changes), *labels),
        *("--submission-id", "mine", "-o", "json"),
        url=canned.url,
    )

    (request,) = canned.asked("POST", BRANCH)
    assert request.body == {
        "snapshot": "3f2a",
        "steps": 5,
        "restore": "trainingState",
        "overrides": {
            "config": {"learningRate": 1e-5},
            "dataset": str(tmp_path / "rows.jsonl"),
        },
        "submissionId": "mine",
        "configName": "lower rate",
        "description": "half of it",
    }
    assert json.loads(done.stdout) == accept(request)[1]


def test_overrides_come_from_stdin_as_well(canned: CannedServer) -> None:
    """S147: JSON or YAML."""
    for text in ('{"config": {"seed": 3}}', "config: {seed: 3}\n"):
        here("-q", *WORDS, "-f", "-", url=canned.url, stdin=text)

    one, other = canned.asked("POST", BRANCH)
    assert one.body["overrides"] == other.body["overrides"] == {"config": {"seed": 3}}


def test_running_again_is_a_second_branch(canned: CannedServer) -> None:
    """S160: each call makes a token of its own."""
    for _ in range(2):
        here(*WORDS, url=canned.url)

    one, other = canned.asked("POST", BRANCH)
    assert one.body["submissionId"] != other.body["submissionId"]


def test_a_lost_answer_is_asked_for_again_with_the_same_token(canned: CannedServer) -> None:
    """S161, C54: so that there is one child."""

    def lose_twice(request: Request) -> tuple[int, object] | None:
        return None if len(canned.asked("POST", BRANCH)) < 3 else accept(request)

    canned.answers["POST", BRANCH] = lose_twice

    done = here(*WORDS, url=canned.url)

    requests = canned.asked("POST", BRANCH)
    assert (done.returncode, done.stdout) == (0, f"run {CHILD} requested\n")
    assert len(requests) == 3
    assert len({each.body["submissionId"] for each in requests}) == 1


def test_an_answer_that_is_lost_every_time_leaves_the_token(
    canned: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S161, C54: exit 5, and what to do with it."""
    monkeypatch.setattr("cli.submission.time.sleep", lambda _: None)
    canned.answers["POST", BRANCH] = lambda _: None

    done = here(*WORDS, url=canned.url)

    token = canned.requests[-1].body["submissionId"]
    assert done.returncode == 5
    assert f"the same call with --submission-id {token} reaches it" in done.stderr


def test_a_token_that_is_empty_is_no_new_token(canned: CannedServer) -> None:
    """S161: an unset variable of a script makes no second child."""
    done = here(*WORDS, "--submission-id", "", url=canned.url)

    assert (done.returncode, canned.requests) == (2, [])
    assert "--submission-id is empty" in done.stderr


def test_what_a_token_reached_before_is_told_as_it_is_now(canned: CannedServer) -> None:
    """S161: created, or refused with the reason."""
    answer = {"submissionId": "mine", "childRunId": CHILD, "parentRunId": RUN, "refusal": None}
    canned.answer("POST", BRANCH, answer | {"state": "created"})
    created = here(*WORDS, "--submission-id", "mine", url=canned.url)
    canned.answer("POST", BRANCH, answer | {"state": "refused", "refusal": REFUSAL})
    refused = here(*WORDS, "--submission-id", "mine", url=canned.url)

    assert created.stdout == f"run {CHILD} created\n"
    assert created.stderr == f"follow it with `trainledger runs wait {CHILD}`\n"
    assert refused.stdout == (
        f"run {CHILD} refused: the source is damaged; branch from another snapshot\n"
    )
    assert refused.stderr == ""


def test_a_preview_is_a_plan_and_says_that_it_reserves_nothing(canned: CannedServer) -> None:
    """S154, S155: YAML with where the child would come from, and nothing is submitted."""
    done = here(*WORDS, "--dry-run", url=canned.url)
    as_json = here(*WORDS, "--dry-run", "-o", "json", url=canned.url)

    assert yaml.safe_load(done.stdout) == {"config": {"seed": 0, "maxSteps": 5}}
    assert done.stdout.startswith(f"# a branch of run {RUN} from snapshot 3f2a9c71bd04\n")
    assert "  maxSteps: 5  # stated\n" in done.stdout
    assert done.stderr == f"dry run: {NOTE}\n"
    assert json.loads(as_json.stdout)["note"] == NOTE
    assert all(each.parameters == {"dryRun": ["true"]} for each in canned.requests)


@pytest.mark.parametrize(
    "words",
    [
        ("--exit-status",),
        ("--restore", "everything"),
        ("--steps", "0"),
        ("--steps", "many"),
        ("--overrides", "/nowhere/x.yaml"),
    ],
)
def test_a_branch_that_is_asked_for_wrongly_asks_nothing(
    canned: CannedServer, words: tuple[str, ...]
) -> None:
    """S159, D8: exit 2."""
    done = here(*WORDS, *words, url=canned.url)

    assert (done.returncode, canned.requests) == (2, [])


def test_exit_status_without_wait_says_what_it_needs(canned: CannedServer) -> None:
    """S159."""
    done = here(*WORDS, "--exit-status", url=canned.url)

    assert done.stderr == "error: --exit-status needs --wait\n"


def test_overrides_that_are_no_mapping_are_named_as_such(canned: CannedServer) -> None:
    done = here(*WORDS, "-f", "-", url=canned.url, stdin="- a\n")

    assert done.returncode == 2
    assert done.stderr == (
        "error: the override document - is no mapping of fields\n"
        "hint: see `trainledger runs branch --help`\n"
    )


def test_a_refusal_names_every_field_or_every_candidate(canned: CannedServer) -> None:
    """C22, C23: exit 4 for what may not be, 3 for what there is not."""
    faults = ["config.epochs cannot be overridden", "surprise is not a field of a plan"]
    refused = problem("plan-refused", "; ".join(faults), 422, faults=faults)
    canned.answer("POST", BRANCH, refused, 422)
    fields = here(*WORDS, url=canned.url)
    missing = problem("snapshot-not-found", "no snapshot '3f2a'; it has: ab (step 20)", 404)
    canned.answer("POST", BRANCH, missing, 404)
    candidates = here(*WORDS, url=canned.url)

    assert (fields.returncode, candidates.returncode) == (4, 3)
    assert fields.stderr.splitlines()[1:] == [f"  {fault}" for fault in faults]
    assert candidates.stderr == "error: no snapshot '3f2a'; it has: ab (step 20)\n"


@pytest.mark.parametrize(
    ("answer", "flags", "posts"), [("n\n", [], 0), ("\n", [], 1), ("", ["--force"], 1)]
)
def test_a_terminal_is_asked_first(
    canned: CannedServer, answer: str, flags: list[str], posts: int
) -> None:
    """S164: Enter means yes, --force skips the question; without a terminal nothing is asked."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*WORDS, *flags),
        env=environment(canned.url),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    process.communicate(timeout=10)
    said = os.read(ours, 65_536)
    os.close(ours)

    assert len(canned.asked("POST", BRANCH)) == posts
    assert process.returncode == (0 if posts else 4)
    asked = f"Branch from snapshot 3f2a of run {RUN}, for 5 updates?".encode()
    assert (asked in said) == (not flags)


# -- following -------------------------------------------------------------------------------------


def test_wait_follows_the_preparation_and_then_the_child(canned: CannedServer) -> None:
    """S157, S158: each state a line, then the story of the child."""
    canned.answers["GET", LIST] = in_states("requested", "preparing", "preparing", "created")
    trained(canned)
    canned.answer("GET", f"/v1/runs/{CHILD}", record(runId=CHILD, phase="SUBMITTED", position=0))

    def later(_: Request) -> tuple[int, object]:
        asked = len(canned.asked("GET", f"/v1/runs/{CHILD}"))
        phase = "SUBMITTED" if asked == 1 else "COMPLETED"
        return 200, record(runId=CHILD, phase=phase, position=0, progress={}, stage=None)

    canned.answers["GET", f"/v1/runs/{CHILD}"] = later

    done = here(*WORDS, "--wait", "--exit-status", url=canned.url)

    lines = done.stdout.splitlines()
    assert lines[:4] == [
        f"run {CHILD} requested",
        f"run {CHILD} preparing",
        f"run {CHILD} created",
        "SUBMITTED",
    ]
    assert "COMPLETED" in lines
    assert f"  Run               {CHILD}" in lines
    assert done.returncode == 0
    token = canned.asked("POST", BRANCH)[0].body["submissionId"]
    looks = canned.asked("GET", LIST)
    assert [each.parameters for each in looks] == [{"submission": [token]}] * 4


def test_wait_in_json_is_states_then_events_then_the_record(canned: CannedServer) -> None:
    """S158: one object a line."""
    canned.answers["GET", LIST] = in_states("preparing", "created")
    trained(canned)

    done = here(*WORDS, "--wait", "-o", "json-compact", url=canned.url)

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["state"] for line in lines[:2]] == ["preparing", "created"]
    assert lines[0]["childRunId"] == CHILD
    assert lines[2:] == [*story(), record(runId=CHILD)]


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--exit-status",), 1)])
def test_a_preparation_that_fails_is_told_and_counts_where_that_is_asked_for(
    canned: CannedServer, flags: tuple[str, ...], code: int
) -> None:
    """S159: with the reason and what to do."""
    canned.answers["GET", LIST] = in_states("preparing", "refused")

    done = here(*WORDS, "--wait", *flags, url=canned.url)

    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == (
        f"run {CHILD} refused: the source is damaged; branch from another snapshot"
    )
    told = "error: the source is damaged\nhint: branch from another snapshot\n"
    assert done.stderr == (told if flags else "")


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--exit-status",), 1)])
def test_a_child_that_fails_counts_where_that_is_asked_for(
    canned: CannedServer, flags: tuple[str, ...], code: int
) -> None:
    """S159."""
    trained(canned, "FAILED")

    assert here(*WORDS, "--wait", *flags, url=canned.url).returncode == code


def test_a_service_that_is_away_for_a_moment_does_not_end_the_following(
    canned: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S158: looked for again, a little later each time."""
    pauses: list[float] = []
    monkeypatch.setattr("cli.preparation.time.sleep", pauses.append)
    trained(canned)
    states = in_states("requested", "created")

    def away_at_first(request: Request) -> tuple[int, object] | None:
        return None if len(canned.asked("GET", LIST)) in (1, 3) else states(request)

    canned.answers["GET", LIST] = away_at_first

    done = here(*WORDS, "--wait", "--exit-status", url=canned.url)

    assert done.returncode == 0
    assert pauses == [0.5, 0.5]


def test_a_service_that_stays_away_ends_the_following_with_how_to_look_again(
    canned: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S162: exit 5."""
    monkeypatch.setattr("cli.preparation.time.sleep", lambda _: None)
    canned.answers["GET", LIST] = lambda _: None

    done = here(*WORDS, "--wait", "--submission-id", "mine", url=canned.url)

    assert done.returncode == 5
    assert f"hint: `trainledger runs branches {RUN} --submission mine` says" in done.stderr


def test_ctrl_c_ends_the_following_and_not_the_branch(canned: CannedServer) -> None:
    """S158: exit 130, and how to look again."""
    process = subprocess.Popen(
        command(*WORDS, "--wait", "--submission-id", "mine"),
        env=environment(canned.url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    canned.answers["GET", LIST] = in_states("preparing")
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)

    assert process.returncode == 130
    assert err.splitlines()[0] == "stopped following; the branch is prepared all the same"
    assert "--submission mine" in err


# -- reading ---------------------------------------------------------------------------------------


def test_branches_are_listed_as_many_as_are_asked_for(canned: CannedServer) -> None:
    """I12: 50, or as many pages as it takes."""
    rows = [branch(f"{n:016x}", position=n) for n in range(250, 0, -1)]

    def page(request: Request) -> tuple[int, object]:
        limit = int(request.parameters["limit"][0])
        upto = int(request.parameters.get("before", ["1000"])[0])
        left = [each for each in rows if each["position"] < upto]
        following = left[limit - 1]["position"] if len(left) > limit else None
        return 200, {"runId": RUN, "branches": left[:limit], "next": following}

    canned.answers["GET", LIST] = page

    fifty = here("runs", "branches", RUN, url=canned.url).stdout.splitlines()
    many = here("runs", "branches", RUN, "--limit", "230", "-o", "json", url=canned.url)

    assert len(fifty) == 51
    assert [line.split()[0] for line in fifty[1:3]] == ["00000000000000fa", "00000000000000f9"]
    answer = json.loads(many.stdout)
    assert answer == {"runId": RUN, "branches": rows[:230], "next": 21}


def test_one_submission_is_read_back(canned: CannedServer) -> None:
    """S162: a table of one, or JSON; exit 3 where nothing has arrived."""
    canned.answers["GET", LIST] = in_states("preparing")
    text = here("runs", "branches", RUN, "--submission", "mine", url=canned.url)
    as_json = here("runs", "branches", RUN, "--submission", "mine", "-o", "json", url=canned.url)
    missing = problem("submission-not-found", "no branch was submitted with 'mine'", 404)
    canned.answer("GET", LIST, missing, 404)
    gone = here("runs", "branches", RUN, "--submission", "mine", url=canned.url)

    assert text.stdout.splitlines()[1].split()[:2] == [CHILD, "preparing"]
    assert json.loads(as_json.stdout)["branches"][0]["state"] == "preparing"
    assert canned.requests[0].parameters == {"submission": ["mine"]}
    assert gone.returncode == 3


def test_tree_and_ancestry_are_drawn_or_json(canned: CannedServer) -> None:
    """I13."""
    root = {"runId": RUN, "name": None, "phase": "COMPLETED", "steps": None}
    child = {"runId": CHILD, "name": None, "phase": "TRAINING", "steps": 5}
    no_source = {"snapshotId": None, "step": None, "restore": None}
    source = {"snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"}
    tree = [root | {"origin": None, "generation": 0}, child | {"origin": ORIGIN, "generation": 1}]
    answers = {"tree": tree, "ancestry": [root | no_source, child | source]}
    for name, runs in answers.items():
        canned.answer("GET", f"/v1/runs/{CHILD}/{name}", {"runId": CHILD, "runs": runs})

    texts = {name: here("runs", name, CHILD, url=canned.url).stdout for name in answers}
    as_json = here("runs", "tree", CHILD, "-o", "json", url=canned.url)

    assert [line.split("  ")[0] for line in texts["tree"].splitlines()] == [
        "run",
        RUN,
        f"`- {CHILD}",
    ]
    assert [line.split()[0] for line in texts["ancestry"].splitlines()] == ["run", RUN, CHILD]
    assert json.loads(as_json.stdout) == {"runId": CHILD, "runs": tree}


# -- a sweep ---------------------------------------------------------------------------------------


SWEEP = ("runs", "sweep", RUN, "--snapshot", "3f2a", "--steps", "5")
AXES = ("--axis", "learningRate=1e-4,2e-4", "--axis", "config.seed=1,2")


def accept_points(request: Request) -> tuple[int, object]:
    """Take each point as a child of its own, the same for the same token."""
    status, answer = accept(request)
    assert isinstance(answer, dict)
    return status, answer | {"childRunId": f"{request.body['submissionId']}'s"}


def test_a_sweep_checks_every_point_before_it_submits_one(canned: CannedServer) -> None:
    """Issue 6: one token for all, the last axis fastest, a name for each child."""
    canned.answers["POST", BRANCH] = accept_points

    done = here(*SWEEP, *AXES, "--submission-id", "mine", url=canned.url)

    posts = canned.asked("POST", BRANCH)
    assert [bool(each.parameters) for each in posts] == [True] * 4 + [False] * 4
    submitted = [each.body for each in posts[4:]]
    assert [each["submissionId"] for each in submitted] == [f"mine-{n}" for n in (1, 2, 3, 4)]
    assert [each.body for each in posts[:4]] == submitted
    assert [each["overrides"]["config"] for each in submitted] == [
        {"learningRate": rate, "seed": seed} for rate in (1e-4, 2e-4) for seed in (1, 2)
    ]
    assert submitted[0]["configName"] == "config.learningRate=0.0001, config.seed=1"
    assert done.stdout.splitlines()[1].split() == ["1", "0.0001", "1", "mine-1's", "requested"]
    assert done.stderr == "the same call with --submission-id mine reaches them again\n"


def test_a_sweep_in_json_has_the_token_of_each_child(canned: CannedServer) -> None:
    canned.answers["POST", BRANCH] = accept_points

    done = here("-q", *SWEEP, "--axis", "seed=1,2", "-o", "json", url=canned.url)

    answer = json.loads(done.stdout)
    token = answer["submissionId"]
    assert answer["points"][1] == {
        "values": {"config.seed": 2},
        "overrides": {"config": {"seed": 2}},
        "submissionId": f"{token}-2",
        "childRunId": f"{token}-2's",
        "state": "requested",
    }
    assert done.stderr == ""


def test_a_sweep_with_one_bad_point_submits_none(canned: CannedServer) -> None:
    """Issue 6: the sentence names the point."""

    def refuse_the_third(request: Request) -> tuple[int, object]:
        if request.body["submissionId"] == "mine-3":
            return 422, problem("plan-refused", "config.seed is -1", 422, hint="correct it")
        return accept_points(request)

    canned.answers["POST", BRANCH] = refuse_the_third

    done = here(
        *SWEEP, "--axis", "seed=1,2,-1,4", "--submission-id", "mine", "--force", url=canned.url
    )

    assert done.returncode == 4
    assert done.stderr == (
        "error: point 3 of 4 (config.seed=-1): config.seed is -1\nhint: correct it\n"
    )
    assert all(each.parameters for each in canned.asked("POST", BRANCH))


def test_a_sweep_that_breaks_off_says_how_to_go_on(canned: CannedServer) -> None:
    """S161: what is made is made, and the token reaches it."""

    def refuse_the_second(request: Request) -> tuple[int, object]:
        if request.body["submissionId"] == "mine-2" and not request.parameters:
            return 409, problem("refused", "the snapshot is gone", 409)
        return accept_points(request)

    canned.answers["POST", BRANCH] = refuse_the_second

    done = here(*SWEEP, "--axis", "seed=1,2", "--submission-id", "mine", url=canned.url)

    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "error: point 2 of 2 (config.seed=2): the snapshot is gone",
        "hint: those before it are made; the same call with --submission-id mine goes on",
    ]


def test_a_dry_run_of_a_sweep_shows_its_points(canned: CannedServer, tmp_path: Path) -> None:
    """Issue 6, S155: nothing is submitted, and nothing is reserved."""
    base = tmp_path / "base.json"
    base.write_text('{"config": {"weightDecay": 0.1}}')

    done = here(*SWEEP, "--axis", "seed=1,2", "-f", str(base), "--dry-run", url=canned.url)

    assert done.stdout.splitlines() == ["point  config.seed", "    1  1", "    2  2"]
    assert "nothing was created or reserved" in done.stderr
    posts = canned.asked("POST", BRANCH)
    assert all(each.parameters == {"dryRun": ["true"]} for each in posts)
    assert posts[1].body["overrides"] == {"config": {"weightDecay": 0.1, "seed": 2}}


def test_an_axis_over_files_is_relative_to_where_the_command_runs(canned: CannedServer) -> None:
    """As a path in a document is relative to the folder of that."""
    here(*SWEEP, "--axis", "dataset=./a.jsonl,b.jsonl", "--dry-run", url=canned.url)

    datasets = [each.body["overrides"]["dataset"] for each in canned.asked("POST", BRANCH)]
    assert datasets == [str(Path.cwd() / "a.jsonl"), "b.jsonl"]
