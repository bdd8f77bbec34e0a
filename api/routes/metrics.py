"""What the engine measured at each step of a run."""

from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from api import past
from api.access import Principal
from api.routes.runs import AsOf, Attempt
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.moments import Moment
from projections.warehouse import queries
from projections.warehouse.apply import CORE
from projections.warehouse.buckets import reduced
from projections.warehouse.export import Export
from projections.warehouse.queries import EVERY_STEP, Rows, Steps, Values
from projections.wire import number

router = APIRouter(prefix="/v1/runs")
LAST = EVERY_STEP[1]
MOST = 10_000  # steps of one answer, which takes 0.2 s to make (measured 2026-11-29)
COLUMNS = orjson.OPT_SERIALIZE_NUMPY  # it would write NaN as null, so only finite arrays get it


class Part(BaseModel):
    """Which steps and numbers of a series are asked for."""

    fields: list[str] = Field(
        [],
        description="Only this name, or these with commas between; may be given several times. "
        "`terms:` stands before the name of a reward term.",
    )
    first: int = Field(0, ge=0, le=LAST, alias="from", description="The lowest step.")
    last: int = Field(LAST, ge=0, le=LAST, alias="to", description="The highest step.")
    as_of: AsOf = None


class Page(Part):
    """The same, with what a restore took back."""

    limit: int | None = Field(None, ge=1, le=LAST, description="Only the last so many steps.")
    superseded: bool = Field(False, description="Also what a restore took back, and marked so.")
    attempt: Attempt | None = Field(
        None, description="What this attempt reported, whole: what was taken back is marked."
    )


@router.get("/{run_id}/metrics")
def read_metrics(
    run_id: str, request: Request, _: Principal, page: Annotated[Page, Query()]
) -> Response:
    """The current series of a run; with ``limit``, its last steps only."""
    service = service_of(request)
    found = service.find(run_id)
    moment = reach(service, found, page.as_of, page.attempt)
    which = {"superseded": page.superseded, "attempt": page.attempt} | _upto(moment)
    first, last, after = queries.page(
        service.warehouse,
        found,
        most=MOST,
        between=(page.first, page.last),
        limit=page.limit,
        **which,
    )
    between = (first, last)
    said = {
        "runId": found,
        "position": position_of(service, moment),
        "steps": queries.metrics(
            service.warehouse, found, fields=names(page.fields), between=between, **which
        ),
        "validations": queries.validations(service.warehouse, found, between=between, **which),
        "next": after,
        **past.said(moment),
    }
    return Response(orjson.dumps(said), media_type="application/json")


class Buckets(Part):
    """The same, in so many parts."""

    buckets: int = Field(
        ge=1, le=MOST, description="The number of buckets, each of as many steps as the others."
    )


@router.get("/{run_id}/metrics/buckets")
def read_buckets(
    run_id: str, request: Request, _: Principal, asked: Annotated[Buckets, Query()]
) -> Json:
    """The current series of a run in few rows: the least, the greatest and the mean of each."""
    service = service_of(request)
    found = service.find(run_id)
    moment = reach(service, found, asked.as_of)
    rows = reduced(
        service.warehouse,
        found,
        sorted(names(asked.fields) or CORE),
        buckets=asked.buckets,
        between=(asked.first, asked.last),
        **_upto(moment),
    )
    said = {"runId": found, "position": position_of(service, moment), "buckets": rows}
    return Json(said | past.said(moment))


class File(Page):
    """The same, as a file."""

    format: Literal["csv", "parquet"] = Field(description="What the file is.")


@router.get("/{run_id}/metrics/file")
def read_file(
    run_id: str, request: Request, _: Principal, asked: Annotated[File, Query()]
) -> Response:
    """The series of a run as a file: a row for each step, a column for each number."""
    service = service_of(request)
    found = service.find(run_id)
    moment = reach(service, found, asked.as_of, asked.attempt)
    which = {"superseded": asked.superseded, "attempt": asked.attempt} | _upto(moment)
    between = (asked.first, asked.last)
    if asked.limit is not None:
        page = queries.page(
            service.warehouse, found, most=LAST, between=between, limit=asked.limit, **which
        )
        between = (page.first, page.last)
    rows = Rows("metrics_all", found, between, **which)
    export = Export(service.warehouse, rows, fields=names(asked.fields))
    if asked.format == "csv":
        return StreamingResponse(export.csv(), media_type="text/csv; charset=utf-8")
    return Response(export.parquet(), media_type="application/vnd.apache.parquet")


@router.get("/{run_id}/series")
def read_series(
    run_id: str,
    request: Request,
    _: Principal,
    field: Annotated[str, Query(description="The engine's own name of the number.")] = "loss",
    as_of: AsOf = None,
) -> Response:
    """One number of every current step, as two columns."""
    service = service_of(request)
    found = service.find(run_id)
    moment = reach(service, found, as_of)
    steps, values = queries.series(service.warehouse, found, field, **_upto(moment))
    return columns({"runId": found, "field": field} | past.said(moment), steps, values)


def columns(facts: dict[str, Any], steps: Steps, values: Values) -> Response:
    """An answer that ends with a series as two columns."""
    told = values if np.isfinite(values).all() else [number(v) for v in values.tolist()]
    said = orjson.dumps(facts | {"step": steps, "value": told}, option=COLUMNS)
    return Response(said, media_type="application/json")


def names(fields: list[str]) -> set[str] | None:
    """The names that are asked for: each text is one, or several; None for all there are."""
    wanted = {name for text in fields for name in (text, *map(str.strip, text.split(",")))} - {""}
    return wanted or None


def reach(
    service: Service, run_id: str, as_of: str | None, attempt: int | None = None
) -> Moment | None:
    """The moment that is asked for, once it can be read; None: now.

    Metrics may be ahead of the record, and are never behind it.

    Raises:
        LedgerError: it is no moment of the past, or the run did not exist then.
        ProblemError: there is no such attempt, or was none then.
    """
    if as_of is not None:
        moment = past.moment_of(service, as_of, "documents", "warehouse")
        past.check(service, run_id, moment, attempt=attempt)
        return moment
    if attempt is not None:
        service.attempt(run_id, attempt)
    service.catch_up("warehouse", service.ledger.position())
    return None


def _upto(moment: Moment | None) -> dict[str, Any]:
    return {"upto": None if moment is None else moment.position}


def position_of(service: Service, moment: Moment | None) -> int:
    """How far the ledger had come in what is answered."""
    return service.warehouse.position() if moment is None else moment.position
