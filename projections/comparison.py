"""How the training loss of a run differs from that of a baseline run, window by window.

Steps are aligned by their numbers: a window is so many consecutive steps that are in both current
series, and windows do not overlap. A difference is that of the run minus that of the baseline. The
arithmetic is decimal, over the first 15 digits of what the engine reported, so that a loss of 1.53
against one of 1.5 differs by 0.03 and by no more.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from ledger.references import same_rows
from projections import wire

Series = Mapping[int, float]  # a number by step, with steps rising
Difference = dict[str, Any]  # a field of two plans, and what each says

DIGITS = 15  # that a number keeps, whatever it is
MOST_DECIMALS = 22  # a higher power of ten is no exact number
REMINDER = (
    "the backward pass is nondeterministic: compare a reported window with repeats of the same "
    "configuration before acting on it"
)


class Curves(NamedTuple):
    """What is compared of a run: its current series."""

    loss: Series
    grad_norm: Series


class Limits(NamedTuple):
    """What is told, and what is not worth telling."""

    window: int = 10  # common steps in a full window
    margin: float = 0.03  # a mean difference greater than this, either way, is reported
    spike_factor: float = 10.0  # a gradient norm of at least so many medians is a spike


# -- the losses ------------------------------------------------------------------------------------


def compare(run: Curves, baseline: Curves, limits: Limits) -> dict[str, Any]:
    """Windows over the common steps, the first full one beyond the margin, and every spike."""
    common = sorted(run.loss.keys() & baseline.loss.keys())
    windows = [
        _window(run.loss, baseline.loss, steps, limits.window)
        for steps in _parts(common, limits.window)
    ]
    return {
        "steps": {
            "compared": len(common),
            "notFinite": sum(each["notFinite"] for each in windows),
            "missingInRun": _missing(baseline.loss, run.loss),
            "missingInBaseline": _missing(run.loss, baseline.loss),
        },
        "windows": windows,
        "reported": next((each for each in windows if _is_beyond(each, limits.margin)), None),
        "spikes": _spikes(run.grad_norm, baseline.grad_norm, limits.spike_factor),
    }


def _parts(steps: Sequence[int], window: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(steps), window):
        yield steps[first : first + window]


def _window(run: Series, baseline: Series, steps: Sequence[int], window: int) -> dict[str, Any]:
    ours, theirs = [run[step] for step in steps], [baseline[step] for step in steps]
    mean, other, difference = _means(ours, theirs)
    return {
        "firstStep": steps[0],
        "lastStep": steps[-1],
        "steps": len(steps),
        "isFull": len(steps) == window,
        "notFinite": _not_finite(ours, theirs),
        "run": wire.number(mean),
        "baseline": wire.number(other),
        "difference": wire.number(difference),
    }


def _not_finite(ours: Sequence[float], theirs: Sequence[float]) -> int:
    pairs = zip(ours, theirs, strict=True)
    return sum(not (math.isfinite(a) and math.isfinite(b)) for a, b in pairs)


def _scale(values: Sequence[float]) -> int | None:
    """The power of ten that leaves 15 digits before the point of the largest value.

    None where that says nothing: one is not finite, or so large that its digits end before it.
    """
    largest = max(map(abs, values)) if all(map(math.isfinite, values)) else math.inf
    if largest >= 10**DIGITS:
        return None
    before = math.floor(math.log10(largest)) + 1 if largest else 0
    scale: int = 10 ** min(DIGITS - before, MOST_DECIMALS)
    return scale


def _means(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The mean of the run, that of the baseline, and that of the difference."""
    count, scale = len(ours), _scale([*ours, *theirs])
    if scale is None:
        apart = sum(a - b for a, b in zip(ours, theirs, strict=True))
        return sum(ours) / count, sum(theirs) / count, apart / count
    run, baseline = _total(ours, scale), _total(theirs, scale)
    whole = count * scale
    return run / whole, baseline / whole, (run - baseline) / whole


def _total(values: Sequence[float], scale: int) -> int:
    """The sum of the digits, as a whole number of 1 / ``scale``."""
    return sum(round(value * scale) for value in values)


def _is_beyond(window: Mapping[str, Any], margin: float) -> bool:
    """Whether a window is full and its difference greater than the margin; NaN never is."""
    difference = abs(wire.read(window["difference"]))
    return window["isFull"] and difference > margin


def _missing(there: Series, here: Series) -> dict[str, Any] | None:
    """Steps that are there and not here: how many, the first and the last; None where all are."""
    missing = there.keys() - here.keys()
    if not missing:
        return None
    return {"count": len(missing), "first": min(missing), "last": max(missing)}


# -- the gradient norms ----------------------------------------------------------------------------


def _spikes(run: Series, baseline: Series, factor: float) -> list[dict[str, Any]]:
    """Every step where either norm spiked, in order, with the norms that did."""
    ours, theirs = _spiked(run, factor), _spiked(baseline, factor)
    return [
        {
            "step": step,
            "run": wire.number(run[step]) if step in ours else None,
            "baseline": wire.number(baseline[step]) if step in theirs else None,
        }
        for step in sorted(ours | theirs)
    ]


def _spiked(norms: Series, factor: float) -> set[int]:
    """Steps whose norm is at least ``factor`` times the median of its run; 0 and NaN never are."""
    finite = sorted(value for value in norms.values() if math.isfinite(value))
    if not finite:
        return set()
    half = len(finite) // 2
    middle = finite[half : half + 1] if len(finite) % 2 else finite[half - 1 : half + 1]
    limit = sum(map(_decimal, middle), Decimal(0)) / len(middle) * _decimal(factor)
    nearly = float(limit) * (1 - 1e-9)  # few reach it; the digits of the others do not matter
    return {
        step
        for step, value in norms.items()
        if value > 0 and value >= nearly and _decimal(value) >= limit
    }


def _decimal(value: float) -> Decimal:
    """The number that the digits of ``value`` say."""
    return Decimal(repr(value))


# -- what was planned ------------------------------------------------------------------------------

IDENTITY_DIGITS = 12  # that tell data sets apart to people
_BEGINNING = ("snapshotId", "restore")  # of a branch: it begins where another run was
# Of what another trainer was told, in its words: when it speaks and saves decides no loss.
_UNDECIDING = frozenset({"logging_steps", "eval_steps", "save_steps"})


class Planned(NamedTuple):
    """What a run was to do."""

    plan: Mapping[str, Any]  # resolved
    origin: Mapping[str, Any] | None = None  # the snapshot that a branch begins from
    identity: str | None = None  # of the rows that it read, if it has
    validation_identity: str | None = None  # of the data set that it measured on
    hyperparameters: Mapping[str, Any] | None = None  # of an imported run, as far as they are known


def differences(run: Planned, baseline: Planned) -> list[Difference]:
    """What two runs do not have in common of what decides their loss, field by field.

    How the sequences of an update are divided is not among it, nor are labels and engines. Rows
    that both have read are compared by their identity, whatever files they came from; imported
    runs by those hyperparameters that both are known to have.
    """
    ours, theirs = dict(_deciding(run)), dict(_deciding(baseline))
    told = _told(run), _told(baseline)
    for said, each in zip(told, (ours, theirs), strict=True):
        each |= {field: said[field] for field in said if all(field in other for other in told)}
    for field, of_run, of_baseline in (
        ("dataset", run.identity, baseline.identity),
        ("validation.dataset", run.validation_identity, baseline.validation_identity),
    ):
        if of_run is not None and of_baseline is not None:
            ours[field] = _read(ours[field], of_run, of_baseline)
            theirs[field] = _read(theirs[field], of_baseline, of_run)
    return [
        {"field": field, "run": ours.get(field), "baseline": theirs.get(field)}
        for field in dict.fromkeys([*ours, *theirs])
        if not _are_equal(ours.get(field), theirs.get(field))
    ]


def _read(dataset: str, identity: str, other: str) -> str:
    """What is compared of rows that both runs have read: what they were, not where they lay."""
    return identity if identity == other else f"{dataset} ({identity[:IDENTITY_DIGITS]})"


def _deciding(planned: Planned) -> Iterator[tuple[str, Any]]:
    plan, validation = planned.plan, planned.plan.get("validation") or {}
    for name in ("method", "baseModel"):
        yield name, plan[name]
    yield "dataset", _rows(plan["dataset"])
    yield from _leaves(plan["config"], "config.")
    yield "validation.fraction", validation.get("fraction")
    yield "validation.dataset", _rows(validation.get("dataset"))
    for name in _BEGINNING:
        yield f"origin.{name}", (planned.origin or {}).get(name)


def _told(planned: Planned) -> dict[str, Any]:
    """What decided the loss of an imported run, by the names of its trainer."""
    said = _leaves(planned.hyperparameters or {}, "")
    return {f"hyperparameters.{name}": value for name, value in said if name not in _UNDECIDING}


def _rows(dataset: str | None) -> str | None:
    """What a plan trains on or measures with; a data set is the same under whatever name."""
    return None if dataset is None else same_rows(dataset)


def _leaves(part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _are_equal(ours: Any, theirs: Any) -> bool:
    """Whether two settings are the same; a number may be written with a point or without."""
    is_flag = isinstance(ours, bool) or isinstance(theirs, bool)
    return bool(ours == theirs) and (not is_flag or type(ours) is type(theirs))


def divided_unlike(run: Planned, baseline: Planned) -> dict[str, dict[str, int]] | None:
    """How each divides the sequences of an update; None where that is the same, or not known."""
    ours, theirs = _division(run.plan), _division(baseline.plan)
    if ours is None or theirs is None or ours == theirs:
        return None
    return {"run": ours, "baseline": theirs}


def _division(plan: Mapping[str, Any]) -> dict[str, int] | None:
    """Over devices, the sequences of a pass, and the passes that are accumulated; None: unknown."""
    execution = plan["execution"]
    devices, micro = execution["devices"], execution["microBatchSequences"]
    if devices is None:
        return None
    return {
        "devices": devices,
        "microBatchSequences": micro,
        "accumulation": plan["config"]["sequencesPerUpdate"] // (devices * micro),
    }
