"""What a run document says of its series: the training loss, validation losses, the newest numbers.

Only current rows count; ``look_back`` says which are. Everything is summed in ledger order, one row
at a time, so that a rebuilt document equals the live one.
"""

import math
import re
from typing import Any

from ledger.events import StepReported, ValidationReported
from projections import wire

_NAMED_LOSS = re.compile(r"eval_(.+)_loss")  # several validation sets without labels


def empty() -> dict[str, Any]:
    """A series without rows."""
    return {
        "loss": None,  # first, last, sum of the finite ones and their number, and of the others
        "latest": None,  # step and numbers of the newest update that measured anything
        "validation": None,  # newest loss: value, step, dataset
        "validations": {},  # newest loss of each labelled validation set
    }


def add(series: dict[str, Any], event: StepReported | ValidationReported) -> None:
    """Count one row."""
    if isinstance(event, StepReported):
        _add_step(series, event)
    else:
        _add_validation(series, event)


def _add_step(series: dict[str, Any], event: StepReported) -> None:
    if event.measured:
        latest = series["latest"]
        measured = wire.numbers(event.measured)
        if latest is not None and latest["step"] == event.step:
            latest["measured"].update(measured)
        else:
            series["latest"] = {"step": event.step, "measured": measured}
    loss = event.measured.get("loss")
    if loss is not None:
        _add_loss(series, loss)


def _add_loss(series: dict[str, Any], loss: float) -> None:
    value = wire.number(loss)
    sums = series["loss"]
    if sums is None:
        sums = series["loss"] = {"first": value, "sum": 0.0, "steps": 0, "notFinite": 0}
    sums["last"] = value
    if math.isfinite(loss):
        sums["sum"] = wire.number(wire.read(sums["sum"]) + loss)
        sums["steps"] += 1
    else:
        sums["notFinite"] += 1


def _add_validation(series: dict[str, Any], event: ValidationReported) -> None:
    found = _loss_of(event)
    if found is None:
        return
    dataset, loss = found
    row = {"value": wire.number(loss), "step": event.step, "dataset": dataset}
    series["validation"] = row
    if dataset is not None:
        series["validations"][dataset] = row


def _loss_of(event: ValidationReported) -> tuple[str | None, float] | None:
    """The loss that a validation measured, with the set that it belongs to."""
    for name in ("eval_loss", "loss"):
        if name in event.measured:
            return event.dataset, event.measured[name]
    losses = [name for name in event.measured if name.endswith("loss")]
    if len(losses) != 1:
        return None
    named = _NAMED_LOSS.fullmatch(losses[0])
    dataset = event.dataset or (named[1] if named else None)
    return dataset, event.measured[losses[0]]
