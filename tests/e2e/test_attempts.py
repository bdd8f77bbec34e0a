"""A run that is killed, paused, damaged and resumed, as its user sees it."""

import json
import signal
from typing import Any

from tests.product import Product, eventually

STALLED = [
    {"training": 60},
    {"steps": 35, "saveEvery": 10},
    {"silence": 600, "attempt": 1},
    {"steps": 25, "seconds": 0.02, "saveEvery": 10},
    {"validation": 60},
    {"snapshot": 60},
    {"model": True},
]
LONG = [{"training": 1000}, {"steps": 1000, "seconds": 0.05, "saveEvery": 5}]


def saved_step(product: Product, run_id: str, at_least: int) -> dict[str, Any]:
    """The record, once so much is saved."""
    return eventually(
        lambda: (
            record if ((record := product.record(run_id))["savedStep"] or 0) >= at_least else None
        ),
        f"{run_id} saved update {at_least}",
    )


def losses(product: Product, run_id: str) -> dict[int, float]:
    return {each["step"]: each["measured"]["loss"] for each in product.steps(run_id)}


def test_a_killed_worker_is_followed_by_another_attempt(shared: Product) -> None:
    """I6, S60, S61, S26, S86, C19, C32: one run, two attempts, one curve, and both are paid for."""
    run_id = shared.start(STALLED)
    saved_step(shared, run_id, 30)
    eventually(lambda: shared.record(run_id)["observedStep"] == 35, "it stands still")
    shared.worker(run_id).kill()

    record = shared.wait_for_phase(run_id, "COMPLETED")

    first, second = record["attempts"]
    assert first["reason"] == "the training job stopped before it finished"
    assert second["restoredFrom"]["step"] == 30
    assert (first["highestStep"], second["firstStep"]) == (35, 31)
    assert first["superseded"] == {"fromStep": 31, "toStep": 35, "steps": 5}
    assert (record["observedStep"], record["savedStep"]) == (60, 60)
    assert sorted(losses(shared, run_id)) == list(range(1, 61))
    undisturbed = shared.start([{"training": 60}, {"steps": 60}])
    shared.wait_for_phase(undisturbed, "COMPLETED")
    assert losses(shared, run_id) == losses(shared, undisturbed)
    paid = [attempt["cost"]["deviceSeconds"] for attempt in record["attempts"]]
    assert abs(record["cost"]["deviceSeconds"] - sum(paid)) < 1e-6
    assert record["cost"]["split"]["repeatedSeconds"] > 0
    assert not record["cost"]["estimate"]


def test_superseded_updates_stay_readable(shared: Product) -> None:
    """U1, D5, S86: hidden by default, shown with what superseded them, and whole by attempt."""
    run_id = shared.start(
        [
            {"training": 30},
            {"steps": 10, "saveEvery": 10},
            {"steps": 5, "measured": {"loss": 9.0}, "attempt": 1},
            {"crash": "SIGKILL", "attempt": 1},
            {"steps": 20, "seconds": 0.01},
        ]
    )
    shared.wait_for_phase(run_id, "COMPLETED")

    everything = shared.json("runs", "metrics", run_id, "--superseded")["steps"]
    gone = [each for each in everything if each.get("superseded")]
    first = shared.json("runs", "metrics", run_id, "--attempt", "1")["steps"]

    assert 9.0 not in losses(shared, run_id).values()
    assert [(each["step"], each["attempt"]) for each in gone] == [(n, 1) for n in range(11, 16)]
    assert {each["measured"]["loss"] for each in gone} == {9.0}
    assert {each["supersededBy"]["attempt"] for each in gone} == {2}
    assert {each["supersededBy"]["step"] for each in gone} == {10}
    assert [each["step"] for each in first] == list(range(1, 16))


def test_a_damaged_snapshot_is_passed_over_and_the_detail_says_so(shared: Product) -> None:
    """S27, I9: one byte of the newest snapshot differs, so the run goes on from the one before."""
    run_id = shared.start(LONG)
    saved_step(shared, run_id, 10)
    shared.worker(run_id).send_signal(signal.SIGSTOP)
    newest, before = shared.json("runs", "snapshots", run_id)["snapshots"][:2]
    (state,) = (shared.home / "snapshots" / run_id / newest["snapshotId"]).rglob("state.json")
    state.write_bytes(state.read_bytes()[:-1] + b" ")

    shared.worker(run_id).kill()

    record = eventually(
        lambda: found if len((found := shared.record(run_id))["attempts"]) == 2 else None
    )
    restored = record["attempts"][1]["restoredFrom"]
    assert restored["snapshotId"] == before["snapshotId"]
    assert [each["snapshotId"] for each in restored["skipped"]] == [newest["snapshotId"]]
    assert newest["snapshotId"][:12] in shared.run("runs", "get", run_id)
    damaged = shared.json("snapshots", "get", newest["snapshotId"])
    assert damaged["status"] == "damaged"
    shared.run("runs", "cancel", run_id, "--force")


def test_a_run_is_paused_and_resumed(shared: Product) -> None:
    """I4, I5, S23: the devices are released, nothing is lost, and waiting costs nothing."""
    run_id = shared.start(
        [
            {"training": 60},
            {"steps": 13, "saveEvery": 10},
            {"silence": "100s", "attempt": 1},
            {"steps": 47},
        ]
    )
    eventually(lambda: shared.record(run_id)["observedStep"] == 13)

    shared.run("runs", "pause", run_id, "--checkpoint", "save", "--wait", "--force")
    paused = shared.record(run_id)
    assert paused["phase"] == "PAUSED"
    assert paused["pause"]["resourcesReleased"] is True
    assert paused["savedStep"] == paused["observedStep"] == 13
    assert set(paused["attempts"][0]["devices"]) <= set(shared.json("info")["devices"]["free"])
    shared.run("runs", "resume", run_id, "--force")
    record = shared.wait_for_phase(run_id, "COMPLETED")

    assert record["attempts"][1]["restoredFrom"]["step"] == 13
    assert record["attempts"][1]["firstStep"] == 14
    assert record["cost"]["split"]["repeatedSeconds"] == 0
    assert sorted(losses(shared, run_id)) == list(range(1, 61))
    held = sum(attempt["cost"]["deviceSeconds"] for attempt in record["attempts"])
    paused_seconds = record["timing"]["phaseMillis"]["PAUSED"] / 1000
    assert held + paused_seconds <= record["timing"]["durationMillis"] / 1000


def test_a_pause_without_a_checkpoint_choice_is_a_usage_error(shared: Product) -> None:
    """I4: required choice; latest is refused when nothing restorable exists."""
    run_id = shared.start([{"training": 100}, {"steps": 100, "seconds": 0.1}])
    shared.wait_for_phase(run_id, "TRAINING")

    shared.run("runs", "pause", run_id, "--force", expect=2)
    shared.run("runs", "pause", run_id, "--checkpoint", "latest", "--force", expect=4)
    shared.run("runs", "resume", run_id, "--force", expect=4)
    shared.run("runs", "cancel", run_id, "--force")


def test_a_refusal_and_want_of_memory_are_not_tried_again(shared: Product) -> None:
    """S66, S69, S71: one attempt each, with the sentence and its class."""
    classes = {
        "refuse": ("input", "an example ends with a user message"),
        "deviceMemory": ("resource", "the training job ran out of device memory; a shorter"),
        "handoverMemory": ("resource", "the training job ran out of device memory handing its"),
    }
    scripts: dict[str, list[dict[str, Any]]] = {
        "refuse": [{"refuse": "an example ends with a user message"}],
        "deviceMemory": [{"steps": 2}, {"crash": "deviceMemory"}],
        "handoverMemory": [{"steps": 2}, {"crash": "handoverMemory"}],
    }
    runs = {name: shared.start(script) for name, script in scripts.items()}

    for name, run_id in runs.items():
        record = shared.wait_for_phase(run_id, "FAILED")
        kind, sentence = classes[name]
        assert record["failure"]["class"] == kind
        assert record["failure"]["reason"].startswith(sentence)
        assert len(record["attempts"]) == 1


def test_what_a_worker_printed_can_be_read_by_attempt(shared: Product) -> None:
    """S81: the internals are in the attempt's own log, and in no reason."""
    run_id = shared.start([{"steps": 1}, {"crash": "exception"}])
    record = shared.wait_for_phase(run_id, "FAILED")

    log = shared.run("runs", "logs", run_id)

    assert "the script of this run says that its trainer crashes here" in log
    assert "RuntimeError" in log
    assert "RuntimeError" not in json.dumps(record)
    shared.run("runs", "logs", run_id, "--attempt", "7", expect=3)


def test_snapshots_are_listed_pinned_and_swept(shared: Product) -> None:
    """I7, I8, I10, U13: keep counts leave the saved step, a pinned one, and the weights."""
    run_id = shared.start(
        [
            {"training": 40},
            {"steps": 10, "saveEvery": 10},
            {"silence": "100s", "attempt": 1},
            {"steps": 30, "saveEvery": 10},
        ],
        execution={"keepTrainingState": 1},
    )
    first = eventually(lambda: shared.json("runs", "snapshots", run_id)["snapshots"])[-1]
    shared.run("snapshots", "pin", first["snapshotId"][:12])
    shared.worker(run_id).kill()
    shared.wait_for_phase(run_id, "COMPLETED")

    snapshots = shared.json("runs", "snapshots", run_id)["snapshots"]

    assert [(each["step"], each["restorable"], each["pinned"]) for each in snapshots] == [
        (40, True, False),
        (30, False, False),
        (20, False, False),
        (10, True, True),
    ]
    assert [sorted(each["artifacts"]) for each in snapshots][1] == ["weights"]
    shared.run("snapshots", "unpin", first["snapshotId"])
    freed = shared.json("snapshots", "sweep", run_id)["freedBytes"]
    assert freed == first["sizes"]["trainingState"]
    assert shared.json("snapshots", "sweep", run_id)["freedBytes"] == 0
    detail = shared.json("snapshots", "get", first["snapshotId"])
    assert detail["artifacts"] == ["weights"]
    assert set(detail["digests"]) == {"weights", "trainingState"}


def test_a_server_that_dies_while_a_run_pauses_finishes_the_pause(product: Product) -> None:
    """I4, U3: what was half done is finished; the to-do is re-read from the ledger."""
    run_id = product.start(LONG)
    eventually(lambda: product.record(run_id)["observedStep"] > 3)
    product.run("runs", "pause", run_id, "--checkpoint", "save", "--force")

    product.kill_server()

    record = product.wait_for_phase(run_id, "PAUSED")
    assert record["savedStep"] == record["observedStep"]
    product.run("runs", "cancel", run_id, "--force")
    assert product.record(run_id)["phase"] == "CANCELLED"
