"""Makers of the service's answers: a test states only what it is about."""

from typing import Any

from tests.cli_server import RUN

Json = dict[str, Any]

REASON = (
    "the training job ran out of device memory; a shorter sequence, a smaller micro batch or "
    "activation recomputation uses less"
)
ADVICE = (
    "A training step exceeded the device's memory. Lower `config.maxSeqLength`, lower "
    "`execution.microBatchSequences` on a reinforcement run, or enable "
    "`config.model.gradientCheckpointing`."
)
SAVED_AT_40 = "3f2a9c71bd04" + "0" * 52
SAVED_AT_60 = "9b1c07e25a6f" + "0" * 52
SAVED_AT_80 = "c4d81e3390fa" + "0" * 52
SAVED_AT_120 = "e07f52ab41d8" + "0" * 52
FAILURE = {"code": "deviceMemory", "class": "resource", "reason": REASON, "advice": ADVICE}


def record(**facts: Any) -> Json:
    """The record of a completed run of 120 steps."""
    return {
        "runId": RUN,
        "project": "triage",
        "name": "first try",
        "description": None,
        "labels": {},
        "method": "SFT",
        "baseModel": "/models/smollm2-135m-instruct",
        "dataset": "/data/train.jsonl",
        "datasetRows": 1200,
        "datasetIdentity": "39418e9c" * 8,
        "validationRows": 120,
        "validationIdentity": None,
        "phase": "COMPLETED",
        "waitingFor": None,
        "stage": None,
        "pause": None,
        "progress": {"completed": 120, "total": 120, "share": 1.0, "lastLoss": 0.5123},
        "observedStep": 120,
        "savedStep": 120,
        "saved": {"snapshotId": SAVED_AT_120, "step": 120, "epoch": 1.0},
        "failure": None,
        "results": {
            "model": {
                "path": "/home/x/.trainledger/attempts/0123456789abcdef/a1/output/model",
                "sha256": "ab" * 32,
                "step": 120,
                "sizeBytes": 19_876_543,
            },
            "validationLoss": {"value": 0.61, "step": 120, "perplexity": 1.84043},
            "trainingLoss": {
                "first": 2.31,
                "last": 0.5123,
                "mean": 0.98,
                "steps": 120,
                "notFinite": 0,
            },
        },
        "cost": {
            "deviceSeconds": 857595.2,
            "estimate": False,
            "deviceKind": "gpu",
            "split": split(useful=857_533.5, preparing=60, waiting=0.5, idle=1.2),
            "throughput": {
                "attempt": 1,
                "tokensPerSecond": 10_247.0,
                "tokensPerSecondPerDevice": 5_123.5,
            },
            "money": None,
        },
        "timing": {
            "startedAt": "2026-11-19T10:00:00.123456Z",
            "endedAt": "2026-11-29T08:13:15Z",
            "durationMillis": 857_595_000,
            "phaseMillis": {"TRAINING": 857_533_500},
            "visits": [],
            "split": {
                "waitingMillis": 1000,
                "queuedMillis": 500,
                "preparingMillis": 60_000,
                "trainingMillis": 857_533_500,
                "otherMillis": 0,
            },
        },
        "memory": {"peakBytes": {"cuda:0": 13_207_024_435, "cuda:1": 13_107_024_435}},
        "dataFit": None,
        "latest": None,
        "attempts": [attempt()],
        "liveness": {"verdict": "ended", "lastSignAt": None, "silentSeconds": None},
        "settings": {
            "configuration": {"learningRate": 2e-4, "schedule": {"kind": "cosine"}},
            "hyperparameters": None,
            "engineSettings": {"adam_beta1": 0.9},
            "runtime": {"devices": 2},
            "run": {"project": "triage", "validation": {"fraction": 0.1}},
        },
        "stated": ["config.learningRate", "project", "validation.fraction"],
        "submittedAt": "2026-11-19T09:59:59.5Z",
        "position": 77,
    } | facts


def attempt(**facts: Any) -> Json:
    """The only attempt of that run."""
    return {
        "attempt": 1,
        "devices": ["cuda:0", "cuda:1"],
        "launcher": "local",
        "host": "here",
        "openedAt": "2026-11-19T10:00:00Z",
        "closedAt": "2026-11-29T08:13:15Z",
        "lastSignAt": "2026-11-29T08:13:15Z",
        "outcome": "completed",
        "code": "completed",
        "reason": "everything that the plan asked for is done",
        "endClass": "completed",
        "exitCode": 0,
        "signal": None,
        "rank": None,
        "firstStep": 1,
        "lastStep": 120,
        "highestStep": 120,
        "superseded": None,
        "restoredFrom": None,
        "note": None,
        "restoreCheck": None,
        "rejectedLines": 0,
        "rejections": [],
        "failedSaves": 0,
        "saveFailures": [],
        "deviceSeconds": 857595.2,
        "cost": {
            "deviceSeconds": 857595.2,
            "estimate": False,
            "split": split(useful=857_533.5, preparing=60, waiting=0.5, idle=1.2),
        },
    } | facts


def split(**seconds: float) -> Json:
    """What device time was for."""
    names = ("useful", "repeated", "preparing", "waiting", "idle")
    return {f"{name}Seconds": seconds.get(name, 0.0) for name in names}


def spent(seconds: float, *, estimate: bool = False, **parts: float) -> Json:
    """The cost of an attempt."""
    return {"deviceSeconds": seconds, "estimate": estimate, "split": split(**parts)}


def restored(snapshot_id: str | None, step: int, *skipped: Json) -> Json:
    """What an attempt began from."""
    return {"snapshotId": snapshot_id, "step": step, "skipped": list(skipped)}


KILLED = {
    "outcome": "failed",
    "code": "vanished",
    "reason": "the training job stopped before it finished",
    "endClass": "infrastructure",
    "exitCode": None,
    "signal": 9,
}


def three_attempts(**facts: Any) -> Json:
    """A run whose first two workers were killed, and whose newest snapshot was then damaged."""
    first = attempt(
        **KILLED,
        devices=["cuda:0"],
        lastStep=57,
        highestStep=57,
        superseded={"fromStep": 41, "toStep": 57, "steps": 17},
        cost=spent(71.5, useful=40.0, repeated=17.0, preparing=12.0, waiting=0.5, idle=2.0),
    )
    second = attempt(
        **KILLED,
        attempt=2,
        devices=["cuda:0"],
        firstStep=41,
        lastStep=93,
        highestStep=93,
        superseded={"fromStep": 61, "toStep": 93, "steps": 33},
        restoredFrom=restored(SAVED_AT_40, 40),
        restoreCheck={
            "verdict": "exact",
            "within": None,
            "parts": {"adapter": "exact", "optimizer": "exact", "rng": "exact"},
            "firstLoss": {
                "step": 41,
                "before": 0.8125,
                "after": 0.8125,
                "verdict": "exact",
                "within": None,
            },
        },
        failedSaves=1,
        saveFailures=["the files could not be written: No space left on device"],
        cost=spent(64.0, useful=20.0, repeated=33.0, preparing=9.5, waiting=0.5, idle=1.0),
    )
    damage = {
        "snapshotId": SAVED_AT_80,
        "step": 80,
        "reason": "adapter_model.safetensors of snapshot c4d81e3390fa was changed: its SHA-256 is "
        f"{'5e' * 32}, not {'c4' * 32}",
    }
    third = attempt(
        attempt=3,
        devices=["cuda:0"],
        firstStep=61,
        restoredFrom=restored(SAVED_AT_60, 60, damage),
        note="from step 60: a newer snapshot was damaged",
        restoreCheck={
            "verdict": "within",
            "within": 3.5e-7,
            "parts": {"adapter": "exact", "optimizer": "within", "rng": "exact"},
            "firstLoss": {
                "step": 61,
                "before": 0.6875,
                "after": 0.68751,
                "verdict": "within",
                "within": 1.5e-5,
            },
        },
        cost=spent(72.3, useful=60.0, preparing=11.0, waiting=0.3, idle=1.0),
    )
    paid = [(1, 71.5, 0.0248), (2, 64.0, 0.0222), (3, 72.3, 0.0251)]
    return record(
        attempts=[first, second, third],
        cost={
            "deviceSeconds": 207.8,
            "estimate": False,
            "deviceKind": "gpu",
            "split": split(useful=120.0, repeated=50.0, preparing=32.5, waiting=1.3, idle=4.0),
            "money": {
                "amount": 0.0722,
                "currency": "EUR",
                "profile": "gpu",
                "estimate": False,
                "perAttempt": [
                    {"attempt": n, "deviceSeconds": seconds, "perHour": 1.25, "amount": amount}
                    for n, seconds, amount in paid
                ],
            },
        },
        **facts,
    )


def snapshot(snapshot_id: str = SAVED_AT_40, step: int = 40, **facts: Any) -> Json:
    """A snapshot of that run, as a list has it."""
    sizes = {"weights": 19_876_544, "trainingState": 40_461_632}
    return {
        "snapshotId": snapshot_id,
        "runId": RUN,
        "attempt": 1,
        "step": step,
        "epoch": step / 120,
        "artifacts": list(sizes),
        "sizeBytes": sum(sizes.values()),
        "sizes": sizes,
        "digests": {"weights": "9c" * 32, "trainingState": "07" * 32},
        "uri": f"file:///home/x/.trainledger/snapshots/{RUN}/{snapshot_id}",
        "status": "committed",
        "restorable": True,
        "pinned": False,
        "heldBy": [],
        "committedAt": "2026-11-29T10:00:40.125Z",
        "sweptAt": None,
        "damage": None,
    } | facts


def branch(child: str, **facts: Any) -> Json:
    """A branch of that run, as a list has it."""
    return {
        "submissionId": f"token-of-{child}",
        "childRunId": child,
        "snapshotId": SAVED_AT_40,
        "sourceStep": 40,
        "restore": "weights",
        "steps": 5,
        "state": "created",
        "refusal": None,
        "configName": None,
        "description": None,
        "configHash": "5c" * 32,
        "requestedAt": "2026-11-29T10:00:41.500Z",
        "position": 78,
    } | facts


def event(position: int, kind: str, **facts: Any) -> Json:
    """An event at ``position``, one second after the one before it."""
    at = f"2026-11-29T10:{position // 60:02}:{position % 60:02}Z"
    return {"position": position, "runId": RUN, "kind": kind, "at": at, **facts}


def step(position: int, number: int, *, attempt: int = 1, **measured: Any) -> Json:
    """A reported step."""
    said = {"loss": round(1 / number, 4)} | measured
    return event(
        position, "stepReported", attempt=attempt, step=number, measured=said, stepSeconds=1.0
    )


def story(end: str = "COMPLETED") -> list[Json]:
    """Ten events of a run of three steps from its submission to its end."""
    return [
        event(1, "runSubmitted"),
        event(2, "attemptOpened", attempt=1, devices=["cuda:0"]),
        event(3, "phaseChanged", phase="PREPARING", waitingFor=None),
        event(4, "stageReported", attempt=1, stage="tokenizing", completed=5, total=10),
        event(5, "phaseChanged", phase="TRAINING", waitingFor=None),
        event(6, "trainingBegan", attempt=1, totalSteps=3),
        step(7, 1),
        step(8, 2),
        step(9, 3),
        ended(10, end),
    ]


def ended(position: int, phase: str) -> Json:
    """The event that ended the run in ``phase``."""
    kind = {"COMPLETED": "runCompleted", "FAILED": "runFailed", "CANCELLED": "runCancelled"}[phase]
    more = {"failure": FAILURE} if phase == "FAILED" else {}
    return event(position, kind, terminal=True, phase=phase, **more)


def story_of_two() -> list[Json]:
    """A run of four steps: its first worker is killed after three, the second goes on from two."""
    position = iter(range(1, 100))

    def happened(kind: str, **facts: Any) -> Json:
        return event(next(position), kind, **facts)

    def made(number: int, attempt: int, loss: float) -> Json:
        return step(next(position), number, attempt=attempt, loss=loss)

    return [
        happened("runSubmitted"),
        happened("attemptOpened", attempt=1, devices=["cuda:0"]),
        happened("phaseChanged", phase="QUEUED"),
        happened("phaseChanged", phase="TRAINING"),
        happened("trainingBegan", attempt=1, totalSteps=4),
        made(1, 1, 1.0),
        made(2, 1, 0.5),
        happened("snapshotCommitted", attempt=1, step=2, snapshotId=SAVED_AT_40),
        happened("snapshotCommitted", attempt=1, step=3, snapshotId=SAVED_AT_60),
        made(3, 1, 0.25),
        happened("attemptClosed", attempt=1, step=3, mayRetry=True, **KILLED),
        happened("phaseChanged", phase="WAITING"),
        happened("snapshotDamaged", snapshotId=SAVED_AT_60, reason="a file is missing"),
        happened("attemptOpened", attempt=2, devices=["cuda:0"], snapshotId=SAVED_AT_40),
        happened("restored", attempt=2, step=2, snapshotId=SAVED_AT_40),
        happened("phaseChanged", phase="QUEUED"),
        happened("restoreChecked", attempt=2, step=2, verdict="exact", parts={"adapter": "exact"}),
        happened("phaseChanged", phase="TRAINING"),
        happened("trainingBegan", attempt=2, totalSteps=4),
        made(3, 2, 0.25),
        made(4, 2, 0.125),
        happened("attemptClosed", attempt=2, step=4, outcome="completed", reason="all is done"),
        ended(next(position), "COMPLETED"),
    ]


def story_of_a_pause() -> list[Json]:
    """A run that is paused and resumed in the middle."""
    first, second = story_of_two()[:10], story_of_two()[13:]
    closed = {"outcome": "paused", "reason": "the run was paused", "endClass": "stopped"}
    middle = [
        event(0, "pauseRequested", checkpoint="save"),
        event(0, "phaseChanged", phase="PAUSING"),
        event(0, "attemptClosed", attempt=1, step=3, mayRetry=False, **closed),
        event(0, "phaseChanged", phase="PAUSED"),
        event(0, "runResumed"),
        event(0, "phaseChanged", phase="WAITING"),
    ]
    return [each | {"position": n} for n, each in enumerate([*first, *middle, *second], start=1)]
