"""What the engine measured at each step of a run."""

from typing import Annotated

import numpy as np
import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.routes.runs import Principal
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from projections.warehouse import queries
from projections.warehouse.queries import EVERY_STEP
from projections.wire import number

router = APIRouter(prefix="/v1/runs")
LAST = EVERY_STEP[1]
COLUMNS = orjson.OPT_SERIALIZE_NUMPY  # it would write NaN as null, so only finite arrays get it


class Page(BaseModel):
    """Which part of a series is asked for."""

    model_config = ConfigDict(extra="forbid")

    fields: str | None = Field(None, description="Only these names, with commas between.")
    first: int = Field(0, ge=0, le=LAST, alias="from", description="The lowest step.")
    last: int = Field(LAST, ge=0, le=LAST, alias="to", description="The highest step.")
    limit: int | None = Field(None, ge=1, le=LAST, description="Only the last so many steps.")
    superseded: bool = Field(False, description="Also what a restore took back, and marked so.")


@router.get("/{run_id}/metrics")
def read_metrics(
    run_id: str, request: Request, _: Principal, page: Annotated[Page, Query()]
) -> Json:
    """The current series of a run; with ``limit``, its last steps only."""
    service = service_of(request)
    found = service.find(run_id)
    _catch_up(service)
    steps = queries.metrics(
        service.warehouse,
        found,
        fields=page.fields.split(",") if page.fields else None,
        between=(page.first, page.last),
        limit=page.limit,
        superseded=page.superseded,
    )
    validations = queries.validations(service.warehouse, found, superseded=page.superseded)
    return Json(
        {
            "runId": found,
            "position": service.warehouse.position(),
            "steps": steps,
            "validations": validations,
        }
    )


@router.get("/{run_id}/series")
def read_series(
    run_id: str,
    request: Request,
    _: Principal,
    field: Annotated[str, Query(description="The engine's own name of the number.")] = "loss",
) -> Response:
    """One number of every current step, as two columns."""
    service = service_of(request)
    found = service.find(run_id)
    _catch_up(service)
    steps, values = queries.series(service.warehouse, found, field)
    columns = {
        "step": steps,
        "value": values if np.isfinite(values).all() else [number(v) for v in values.tolist()],
    }
    said = orjson.dumps({"runId": found, "field": field, **columns}, option=COLUMNS)
    return Response(said, media_type="application/json")


def _catch_up(service: Service) -> None:
    """Metrics may be ahead of the record, and are never behind it."""
    service.catch_up("warehouse", service.ledger.position())
