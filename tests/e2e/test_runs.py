"""Runs from the command line to a real server, runner and worker, and back."""

import json
import math
import os
from typing import Any

from tests.product import Product, eventually, interrupt

SHORT = [
    {"stage": "reading rows", "completed": 0, "total": 30},
    {"stage": "reading rows", "completed": 30, "total": 30},
    {"training": 12},
    {"steps": 12},
    {"validation": 12, "measured": {"eval_loss": 0.5}},
    {"model": True},
]
SLOW = [{"training": 600}, {"steps": 600, "seconds": 0.1}]


def split(output: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of events, and the record that follows the terminal one."""
    events: list[dict[str, Any]] = []
    lines = output.splitlines(keepends=True)
    while lines and not (events and events[-1].get("terminal")):
        events.append(json.loads(lines.pop(0)))
    return events, json.loads("".join(lines))


def test_a_run_is_started_followed_and_read(shared: Product) -> None:
    """S50-S53, S56, I1: lines of events, one terminal event, then the record."""
    plan = shared.plan(SHORT, project="triage", name="first try")

    out = shared.run("runs", "start", "-f", plan, "--wait", "--exit-status", "-o", "json")

    events, record = split(out)
    assert [event["phase"] for event in events if event["kind"] == "phaseChanged"] == [
        "QUEUED",
        "PREPARING",
        "TRAINING",
    ]
    assert [event for event in events if event.get("terminal")] == [events[-1]]
    assert events[-1]["phase"] == "COMPLETED"
    positions = [event["position"] for event in events]
    assert positions == sorted(set(positions))
    assert record["phase"] == "COMPLETED"
    assert record["observedStep"] == 12
    assert record["progress"]["share"] == 1.0
    assert record["results"]["validationLoss"] == {
        "value": 0.5,
        "step": 12,
        "perplexity": math.exp(0.5),
        "dataset": None,
    }
    assert record["results"]["model"]["path"].endswith("model/adapter_model.safetensors")
    assert record["project"] == "triage"


def test_the_record_adds_up(shared: Product) -> None:
    """S22-S24, S44, D3: phases add up to the whole, and devices cost from claim to release."""
    run_id = shared.start(SHORT)

    record = shared.wait_for_phase(run_id, "COMPLETED")

    timing = record["timing"]
    assert sum(timing["phaseMillis"].values()) == timing["durationMillis"]
    assert sum(timing["split"].values()) == timing["durationMillis"]
    assert [visit["phase"] for visit in timing["visits"]][:4] == [
        "SUBMITTED",
        "QUEUED",
        "PREPARING",
        "TRAINING",
    ]
    assert record["cost"]["estimate"] is False
    assert 0 < record["cost"]["deviceSeconds"] <= timing["durationMillis"] / 1000


def test_a_dry_run_creates_nothing(shared: Product) -> None:
    """I1, I25: the resolved plan, with a mark on what was stated."""
    shared.run("server", "start")
    before = shared.json("info")["position"]
    plan = shared.plan(SHORT, project="dry")

    out = shared.run("runs", "start", "-f", plan, "--dry-run")

    assert "baseModel: tiny" in out
    assert shared.json("info")["position"] == before
    assert shared.json("runs", "list", "--project", "dry")["runs"] == []


def test_the_settings_of_a_run_are_those_it_was_started_with(shared: Product) -> None:
    """S19, S20, I25: every default is frozen at submission."""
    run_id = shared.start(SHORT, config={"seed": 7})

    record = shared.record(run_id)
    settings = record["settings"]

    assert settings["configuration"]["seed"] == 7
    assert settings["configuration"]["learningRate"] == 2.0e-4
    assert "config.seed" in record["stated"]
    assert "config.learningRate" not in record["stated"]
    wide = shared.run("runs", "get", run_id, "-o", "wide")
    assert (
        shared.run("runs", "get", run_id, "--settings").split("Settings")[1]
        == (wide.split("Settings")[1])
    )


def test_every_number_arrives_as_it_was_measured(shared: Product) -> None:
    """C35, C40, U11: NaN, infinities, absence and strange names, through to the command line."""
    run_id = shared.start(
        [
            {"training": 5},
            {"step": 1, "measured": {"loss": 0.5, "actor/grad_norm": 1.5, "损失": 2.0}},
            {"step": 2, "measured": {"loss": "NaN"}},
            {"step": 3, "measured": {"loss": 0.25, "grad_norm": "Infinity"}},
            {"line": '{"kind": "step", "step": 4, "measured": {"grad_norm": 1.0}}'},
            {"step": 5, "measured": {"loss": "-Infinity"}},
        ]
    )
    shared.wait_for_phase(run_id, "COMPLETED")

    measured = {each["step"]: each["measured"] for each in shared.steps(run_id)}

    assert len(measured) == 5
    assert measured[1]["actor/grad_norm"] == 1.5
    assert measured[1]["损失"] == 2.0
    assert measured[2]["loss"] == "NaN"
    assert measured[3]["grad_norm"] == "Infinity"
    assert "loss" not in measured[4]
    assert measured[5]["loss"] == "-Infinity"
    table = shared.run("runs", "metrics", run_id)
    assert "NaN" in table
    assert "-Infinity" in table
    loss = shared.record(run_id)["results"]["trainingLoss"]
    assert (loss["mean"], loss["notFinite"]) == (0.375, 2)


def test_a_refusal_ends_the_run_before_anything_was_trained(shared: Product) -> None:
    """S56, S66, S68: the refusal's own words, 0 rows, status 1."""
    plan = shared.plan([{"refuse": "an example ends with a user message"}])

    out = shared.run("runs", "start", "-f", plan, "--wait", "--exit-status", "-o", "json", expect=1)

    events, record = split(out)
    assert events[-1]["failure"]["reason"] == "an example ends with a user message"
    assert record["failure"]["class"] == "input"
    assert shared.steps(record["runId"]) == []


def test_a_wait_that_times_out_leaves_the_run_alone(shared: Product) -> None:
    """S54, S55, S57, D1."""
    run_id = shared.start(SLOW)
    shared.wait_for_phase(run_id, "TRAINING")

    shared.run("runs", "wait", run_id, "--timeout", "1s", expect=124)

    assert shared.record(run_id)["phase"] == "TRAINING"


def test_ctrl_c_stops_following_and_not_the_run(shared: Product) -> None:
    """S58, C52: status 130, and how to follow again."""
    run_id = shared.start(SLOW)
    process = shared.popen("runs", "wait", run_id, "-o", "json")
    assert process.stdout is not None
    process.stdout.readline()

    _, err = interrupt(process)

    assert process.returncode == 130
    assert f"runs wait {run_id}" in err
    assert "Traceback" not in err
    assert shared.record(run_id)["phase"] in {"QUEUED", "PREPARING", "TRAINING"}


def test_a_cancelled_run_frees_its_device(shared: Product) -> None:
    """I3: accepted at once, ends in CANCELLED."""
    run_id = shared.start(SLOW)
    shared.wait_for_phase(run_id, "TRAINING")

    shared.run("runs", "cancel", run_id, "--force")

    record = shared.wait_for_phase(run_id, "CANCELLED")
    assert record["attempts"][0]["endClass"] == "stopped"
    assert set(record["attempts"][0]["devices"]) <= set(shared.json("info")["devices"]["free"])
    shared.run("runs", "wait", run_id, "--exit-status", expect=1)
    shared.run("runs", "wait", run_id)
    shared.run("runs", "cancel", run_id, "--force", expect=4)


def test_server_and_runner_never_preempt_the_worker(shared: Product) -> None:
    """U5: waking them would take its processor inside a report call, for milliseconds."""
    run_id = shared.start(SLOW)
    worker = shared.worker(run_id)

    policies = [os.sched_getscheduler(each) for each in (shared.server().pid, worker.ppid())]
    assert policies == [os.SCHED_BATCH, os.SCHED_BATCH]
    assert os.sched_getscheduler(worker.pid) == os.SCHED_OTHER
    shared.run("runs", "cancel", run_id, "--force")


def test_the_list_knows_what_is_open(shared: Product) -> None:
    """I2: newest first, open means unfinished."""
    done, open_one = shared.start(SHORT, project="two"), shared.start(SLOW, project="two")
    shared.wait_for_phase(done, "COMPLETED")

    def ids(*words: str) -> list[str]:
        runs = shared.json("runs", "list", "--project", "two", *words)["runs"]
        return [run["runId"] for run in runs]

    assert ids() == [open_one, done]
    assert ids("--phase", "open") == [open_one]
    assert ids("--phase", "COMPLETED") == [done]


def test_a_worker_that_is_killed_fails_its_run_and_loses_no_step(shared: Product) -> None:
    """S79, C44, U3: SIGKILL without a last word, and the plan allows no other attempt."""
    run_id = shared.start(SLOW, execution={"maxAttempts": 1})
    eventually(lambda: len(shared.spooled(run_id)) > 20)

    shared.worker(run_id).kill()

    record = shared.wait_for_phase(run_id, "FAILED")
    assert record["failure"]["reason"] == "the training job stopped before it finished"
    assert record["failure"]["advice"] == "Start the run again."
    said = [line["step"] for line in shared.spooled(run_id) if line["kind"] == "step"]
    assert [each["step"] for each in shared.steps(run_id)] == said == list(range(1, len(said) + 1))
    shared.run("runs", "wait", run_id, "--exit-status", expect=1)


def test_a_worker_that_ends_without_a_word_has_not_completed(shared: Product) -> None:
    """U10, C44: exit 0 is no success by itself; SIGTERM is a stop; an exception is a failure."""
    reasons = {
        "exit0": "the training job stopped before it finished",
        "SIGTERM": "the training job was stopped",
        "exception": "the training job failed; the run ID is what support needs",
        "deviceMemory": "the training job ran out of device memory; a shorter sequence, a smaller "
        "micro batch or activation recomputation uses less",
    }
    once = {"maxAttempts": 1}
    runs = {
        crash: shared.start([{"steps": 2}, {"crash": crash}], execution=once) for crash in reasons
    }

    for crash, run_id in runs.items():
        record = shared.wait_for_phase(run_id, "FAILED")
        assert record["failure"]["reason"] == reasons[crash]
        assert record["observedStep"] == 2


def test_a_restore_inside_an_attempt_takes_back_what_followed(shared: Product) -> None:
    """U1, S86: the series is the current one; what was taken back stays readable."""
    run_id = shared.start(
        [
            {"steps": 6, "measured": {"loss": 1.0}},
            {"restore": 4},
            {"steps": 4, "measured": {"loss": 0.5}},
        ]
    )
    record = shared.wait_for_phase(run_id, "COMPLETED")

    losses = [(each["step"], each["measured"]["loss"]) for each in shared.steps(run_id)]

    assert losses == [*[(n, 1.0) for n in range(1, 5)], *[(n, 0.5) for n in range(5, 9)]]
    assert record["observedStep"] == 8
    assert record["results"]["trainingLoss"]["mean"] == 0.75


def test_a_line_that_is_wrong_is_shown_and_does_not_stop_the_run(shared: Product) -> None:
    """U2: a step that is said twice is an error with a reason."""
    run_id = shared.start(
        [
            {"step": 1},
            {"line": "garbage"},
            {"line": '{"kind":"step","step":1,"measured":{"loss":9}}'},
        ]
    )

    record = shared.wait_for_phase(run_id, "COMPLETED")

    assert record["attempts"][0]["rejectedLines"] == 2
    assert len(shared.steps(run_id)) == 1
    kinds = [
        json.loads(line)["kind"]
        for line in shared.run("runs", "events", run_id, "-o", "json").splitlines()
    ]
    assert kinds.count("lineRejected") == 2


def test_what_was_done_can_be_proved(shared: Product) -> None:
    """Every chain holds, and the live projections equal a replay."""
    shared.wait_for_phase(shared.start(SHORT), "COMPLETED")

    verdict = shared.json("audit", "verify")

    assert verdict["ok"] is True
    assert verdict["faults"] == []
    assert verdict["events"] == verdict["position"]
