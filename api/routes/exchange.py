"""What leaves a server, as tar archives: exports, backups, and projections of earlier times."""

from collections.abc import Generator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.access import Principal
from api.archive import TAR
from api.routes.events import NO_BUFFERING
from api.routes.service import service_of
from api.streams import Parts

router = APIRouter(prefix="/v1")


@router.get("/export")
def export_ledger(
    request: Request,
    _: Principal,
    artifacts: Annotated[
        bool, Query(description="Also the files of the snapshots that are kept.")
    ] = False,
    datasets: Annotated[bool, Query(description="Also the rows of the catalogue.")] = False,
) -> Response:
    """Every event as a line of JSON with its digest, and the views of the warehouse as Parquet."""
    exchange = service_of(request).exchange
    return _archive(exchange.export(artifacts=artifacts, datasets=datasets))


@router.get("/backup")
def back_up(
    request: Request,
    _: Principal,
    datasets: Annotated[bool, Query(description="Also the rows of the catalogue.")] = True,
) -> Response:
    """The event database as of one moment, and the rows of data sets; the server works on."""
    exchange = service_of(request).exchange
    return _archive(exchange.backup(datasets=datasets))


@router.get("/audit/replay")
def replay_ledger(
    request: Request,
    _: Principal,
    to: Annotated[str, Query(description="A position, or a time such as `2026-11-29T18:00:00Z`.")],
) -> Response:
    """The projections as they were then, built anew from the first event on."""
    exchange = service_of(request).exchange
    return _archive(exchange.replay(to))


def _archive(parts: Generator[bytes, None, None]) -> Response:
    return Parts(parts, media_type=TAR, headers=NO_BUFFERING)
