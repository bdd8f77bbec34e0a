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
FAILURE = {"code": "deviceMemory", "class": "resource", "reason": REASON, "advice": ADVICE}


def record(**facts: Any) -> Json:
    """The record of a completed run of 120 steps."""
    return {
        "runId": RUN,
        "project": "triage",
        "name": "first try",
        "description": None,
        "method": "SFT",
        "baseModel": "/models/smollm2-135m-instruct",
        "dataset": "/data/train.jsonl",
        "datasetRows": 1200,
        "validationRows": 120,
        "phase": "COMPLETED",
        "waitingFor": None,
        "stage": None,
        "progress": {"completed": 120, "total": 120, "share": 1.0, "lastLoss": 0.5123},
        "observedStep": 120,
        "savedStep": None,
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
        "cost": {"deviceSeconds": 857595.2, "estimate": False, "deviceKind": "gpu"},
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
        "openedAt": "2026-11-19T10:00:00Z",
        "closedAt": "2026-11-29T08:13:15Z",
        "reason": "the worker did all that was asked for",
        "endClass": "completed",
        "exitCode": 0,
        "signal": None,
        "firstStep": 1,
        "lastStep": 120,
        "highestStep": 120,
        "deviceSeconds": 857595.2,
        "rejectedLines": 0,
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
