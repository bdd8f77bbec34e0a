"""How the training loss of a run differs from that of another."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.access import Principal
from api.problems import NOT_COMPARABLE, ProblemError
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.events import RunId
from projections import comparison
from projections.comparison import Curves, Difference, Limits, Planned
from projections.warehouse import queries

router = APIRouter(prefix="/v1/runs")


class Comparison(BaseModel):
    """What is compared, and what is told of it."""

    model_config = ConfigDict(alias_generator=to_camel)

    baseline: str = Field(description="The run to compare with: its id, or how that begins.")
    window: int = Field(
        10, ge=1, lt=2**31, description="The number of common steps averaged into each row."
    )
    margin: float = Field(
        0.03,
        ge=0,
        allow_inf_nan=False,
        description="The mean difference, either way, that a full window must exceed to be "
        "reported.",
    )
    spike_factor: float = Field(
        10.0,
        gt=0,
        allow_inf_nan=False,
        description="How many times its run's median a gradient norm must be to be a spike.",
    )
    across_plans: bool = Field(
        False, description="Compare runs whose plans differ in what decides the loss, too."
    )


@router.get("/{run_id}/compare")
def compare_runs(
    run_id: str, request: Request, _: Principal, asked: Annotated[Comparison, Query()]
) -> Json:
    """The current training loss of a supervised run against that of a baseline run."""
    service = service_of(request)
    found, other = service.find(run_id), service.find(asked.baseline)
    for projection in ("documents", "warehouse"):
        service.catch_up(projection, service.ledger.position())
    run, baseline = _planned(service, found), _planned(service, other)
    differences = comparison.differences(run, baseline)
    if differences and not asked.across_plans:
        raise _differ(found, other, differences)
    limits = Limits(asked.window, asked.margin, asked.spike_factor)
    compared = comparison.compare(_curves(service, found), _curves(service, other), limits)
    return Json(
        {
            "runId": found,
            "baselineId": other,
            "position": service.warehouse.position(),
            "window": asked.window,
            "margin": asked.margin,
            "spikeFactor": asked.spike_factor,
            "acrossPlans": asked.across_plans,
            "differences": differences,
            "division": comparison.divided_unlike(run, baseline),
            **compared,
            "reminder": comparison.REMINDER,
        }
    )


def _planned(service: Service, run_id: RunId) -> Planned:
    """What a supervised run was to do.

    Raises:
        ProblemError: the run is one of reinforcement.
    """
    state = service.ledger.run(run_id)
    if state.plan["method"] != "SFT":
        raise ProblemError(
            NOT_COMPARABLE,
            f"run {run_id} is a reinforcement run ({state.plan['method']}): it records a reward at "
            "each step instead of a training loss",
            "only supervised runs can be compared",
        )
    origin = state.origin
    begun = None if origin is None else origin.model_dump()
    record = service.documents.get(run_id) or {}
    return Planned(
        state.plan,
        begun and {"snapshotId": begun["snapshot_id"], "restore": begun["restore"]},
        record.get("datasetIdentity"),
        record.get("validationIdentity"),
        record["settings"]["hyperparameters"] if record.get("imported") else None,
    )


def _curves(service: Service, run_id: RunId) -> Curves:
    def series(field: str) -> comparison.Series:
        steps, values = queries.series(service.warehouse, run_id, field)
        return dict(zip(steps.tolist(), values.tolist(), strict=True))

    return Curves(series("loss"), series("grad_norm"))


def _differ(run_id: RunId, other: RunId, differences: list[Difference]) -> ProblemError:
    """What is answered where the plans differ."""
    fields = ", ".join(each["field"] for each in differences)
    return ProblemError(
        NOT_COMPARABLE,
        f"the plans of run {run_id} and of the baseline {other} differ in {fields}",
        "across plans (--across-plans) they are compared all the same; their loss then differs "
        "because of the plans as well",
        more={
            "differences": differences,
            "faults": [
                f"{each['field']}: {_said(each['run'])} here, {_said(each['baseline'])} in the "
                "baseline"
                for each in differences
            ],
        },
    )


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "nothing" if value is None else str(value)
