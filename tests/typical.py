"""Five runs as they typically go, event by event, and a server that has them.

A run that completed, one that was lost twice and went on, one that ran out of device memory, a
branch of the first, and one that another tracker recorded.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger import histories, imports
from ledger.events import Event
from tests import make
from tests.histories import STARTED, Importer, importer
from tests.make import Made

COMPLETED = "c0de000000000001"
RETRIED = "c0de000000000003"
FAILED = "c0de00000000000f"
BRANCH = "c0de00000000000b"
IMPORTED = "c0de0000000000a1"  # in the place of the id that the import makes up

PLAN = {
    "project": "triage",
    "baseModel": "/models/smollm2-135m-instruct",
    "dataset": "/data/train.jsonl",
    "validation": {"fraction": 0.1, "every": 6},
    "config": {"maxSteps": 12, "learningRate": 2.0e-4},
    "engine": "sim",
}
REASON = (
    "the training job ran out of device memory; a shorter sequence, a smaller micro batch or "
    "activation recomputation uses less"
)
ADVICE = (
    "A training step exceeded the device's memory. Lower `config.maxSeqLength`, lower "
    "`execution.microBatchSequences` on a reinforcement run, or enable "
    "`config.model.gradientCheckpointing`."
)


def measured(step: int, *, loss: float) -> dict[str, float]:
    """What an engine measures of an update."""
    norm = 4.0 / step
    return {
        "loss": loss,
        "grad_norm": norm,
        "grad_clip_factor": min(1.0, 1.0 / norm),
        "adapter_norm": 3.25 + step / 128,
        "update_ratio": 1 / (256 * step),
        "learning_rate": 2e-4 * (13 - step) / 12,
        "epoch": step / 12,
    }


def updates(
    run: str, first: int, last: int, *, attempt: int = 1, above: float = 0.0
) -> list[Event]:
    """Updates whose loss falls from 2.5, ``above`` that of the others."""
    return [
        make.step(step, measured(step, loss=0.5 + 2 / step + above), attempt=attempt, run=run)
        for step in range(first, last + 1)
    ]


def prepared(run: str, **fields: object) -> list[Event]:
    """A run that has read its rows and trains."""
    return [
        *make.training(run, **(PLAN | fields)),
        make.dataset(1200, 120, run=run),
        make.data_fit(run=run, rows=1080, reached=12, lost_end=3, dropped=1, padding_share=0.125),
    ]


def ended(run: str, *, attempt: int = 1) -> list[Event]:
    """The run has a model, and is over."""
    reason = "everything that the plan asked for is done"
    return [
        make.memory({"cpu:0": 3_221_225_472}, attempt=attempt, run=run),
        make.model(12, attempt=attempt, run=run),
        make.reports_closed(attempt, run),
        make.closed(attempt, run, reason=reason, code="completed", exit_code=0),
        make.completed(run),
    ]


def completed() -> list[Made]:
    """Twelve updates, two validations, one snapshot of each half."""
    run = COMPLETED
    return [
        *prepared(run, name="first try"),
        *updates(run, 1, 6),
        make.validation(6, eval_loss=1.0, run=run),
        make.saved(6, "half", run=run),
        *updates(run, 7, 12),
        make.validation(12, eval_loss=0.75, run=run),
        make.saved(12, "whole", run=run),
        *ended(run),
    ]


def retried() -> list[Made]:
    """Lost after updates 5 and 9; the next attempts went on from 4 and from 8."""
    run = RETRIED
    return [
        *prepared(run, name="night run"),
        *updates(run, 1, 4),
        make.saved(4, "at four", run=run),
        *updates(run, 5, 5),
        *make.retried(2, 4, run, "at four"),
        make.restore_checked(4, run=run, weights="exact", optimizer="exact"),
        *updates(run, 5, 8, attempt=2),
        make.saved(8, "at eight", attempt=2, run=run),
        *updates(run, 9, 9, attempt=2),
        *make.retried(3, 8, run, "at eight"),
        make.restore_checked(8, "within", attempt=3, run=run, within=3.5e-7, optimizer="within"),
        *updates(run, 9, 12, attempt=3, above=0.000244140625),
        make.validation(12, eval_loss=0.8125, attempt=3, run=run),
        make.saved(12, "at twelve", attempt=3, run=run),
        *ended(run, attempt=3),
    ]


def failed() -> list[Made]:
    """Out of device memory in its fourth update; the loss was lost before."""
    run = FAILED
    said = {"code": "deviceMemory", "end_class": "resource", "reason": REASON}
    return [
        *prepared(run, name="long rows"),
        *updates(run, 1, 2),
        make.step(3, {"loss": float("nan"), "grad_norm": float("inf"), "epoch": 0.25}, run=run),
        make.memory({"cpu:0": 12_884_901_888}, run=run),
        make.reports_closed(1, run),
        make.closed(1, run, outcome="failed", exit_code=1, **said),
        make.failed(run, advice=ADVICE, **said),
    ]


def branch() -> list[Made]:
    """Six more updates from the half of the first run, at half the rate."""
    run = BRANCH
    source = make.origin("half", 6, COMPLETED)
    changed = PLAN | {"name": "half the rate", "config": {"maxSteps": 6, "learningRate": 1.0e-4}}
    return [
        make.branched(run, source, steps=6, **changed),
        *make.training(run)[1:],
        *updates(run, 1, 6, above=-0.25),
        make.validation(6, eval_loss=0.625, run=run),
        make.saved(6, "branch", run=run),
        make.reports_closed(1, run),
        make.closed(1, run, reason="everything that the plan asked for is done", exit_code=0),
        make.completed(run),
    ]


def history() -> list[str]:
    """Four rows of twelve updates, as a tracker has them that logs every third one."""
    source = {
        "kind": "source",
        "source": "trainer-state",
        "file": "trainer_state.json",
        "sha256": "5e" * 32,
        "name": "trainer_state.json",
        "at": STARTED,
        "totalSteps": 12,
        "maxGradNorm": 1.0,
    }
    steps = [
        {
            "kind": "step",
            "step": step,
            "at": STARTED + 60 * step,
            "measured": {"loss": 0.5 + 2 / step, "grad_norm": 4.0 / step, "epoch": step / 12},
        }
        for step in (3, 6, 9, 12)
    ]
    validations = [
        {
            "kind": "validation",
            "step": 12,
            "dataset": name,
            "at": STARTED + 730,
            "measured": {f"eval_{name}_loss": loss},
        }
        for name, loss in (("g0", 0.75), ("g1", 1.5))
    ]
    return [json.dumps(line) for line in (source, *steps, *validations)]


@contextmanager
def served(home: Path) -> Iterator[tuple[Importer, dict[str, str]]]:
    """A server that has all of them, and their ids."""
    told = make.recorded(completed(), retried(), failed(), branch())
    with importer(home) as product:
        ledger = product.api.service.ledger
        ledger.append(lambda _: [each.event for each in told], principal="tester")
        made = imports.take(ledger, histories.read(history()), principal="tester")
        yield (
            product,
            {
                "completed": COMPLETED,
                "retried": RETRIED,
                "failed": FAILED,
                "branch": BRANCH,
                "imported": made.submission.run_id,
            },
        )
