"""What leaves a server, as tar archives: exports, backups, and projections of earlier times."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from api.access import Principal
from api.archive import TAR
from api.routes.events import NO_BUFFERING
from api.routes.service import service_of

router = APIRouter(prefix="/v1")


@router.get("/export")
def export_ledger(
    request: Request,
    _: Principal,
    artifacts: Annotated[
        bool, Query(description="Also the files of the snapshots that are kept.")
    ] = False,
) -> StreamingResponse:
    """Every event as a line of JSON with its digest, and the views of the warehouse as Parquet."""
    exchange = service_of(request).exchange
    return StreamingResponse(
        exchange.export(artifacts=artifacts), media_type=TAR, headers=NO_BUFFERING
    )


@router.get("/backup")
def back_up(request: Request, _: Principal) -> StreamingResponse:
    """The event database as of one moment; the server works on meanwhile."""
    exchange = service_of(request).exchange
    return StreamingResponse(exchange.backup(), media_type=TAR, headers=NO_BUFFERING)


@router.get("/audit/replay")
def replay_ledger(
    request: Request,
    _: Principal,
    to: Annotated[str, Query(description="A position, or a time such as `2026-11-29T18:00:00Z`.")],
) -> StreamingResponse:
    """The projections as they were then, built anew from the first event on."""
    exchange = service_of(request).exchange
    return StreamingResponse(exchange.replay(to), media_type=TAR, headers=NO_BUFFERING)
