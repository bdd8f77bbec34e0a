"""SQL for analysts: one query at a time over the published copy of the warehouse."""

import asyncio
from collections.abc import AsyncIterator
from typing import IO, Annotated

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from api.access import Principal
from api.routes.service import service_of
from api.wire import Json
from projections.sql.pool import Answer, Asked, Question

router = APIRouter(prefix="/v1/sql")

BLOCK_BYTES = 1 << 18
LONGEST = 100_000  # characters of a query
MOST_ROWS = 2**62
GONE = 499  # for nobody: the name that others gave to a client that left
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
    "json": "application/json",
}


class Query(BaseModel):
    """What is asked."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(
        max_length=LONGEST, description="One SELECT, in the SQL of DuckDB ([sql.md](sql.md))."
    )
    limit: int | None = Field(
        None, ge=0, le=MOST_ROWS, description="At most so many rows; null: all of them."
    )
    fresh: bool = Field(False, description="Publish everything that is recorded by now first.")


@router.get("")
def read_copy(request: Request, _: Principal) -> Json:
    """Where the published copy is and how far it goes, and what a query may have."""
    return Json(service_of(request).copy())


@router.post(":publish")
def publish_copy(request: Request, _: Principal) -> Json:
    """Publish everything that is recorded by now."""
    service = service_of(request)
    service.publish()
    return Json(service.copy())


@router.post("")
async def run_query(
    body: Query,
    request: Request,
    _: Principal,
    accept: Annotated[
        str,
        Header(
            description="`text/csv`, `application/vnd.apache.parquet` or "
            "`application/vnd.apache.arrow.stream`, else JSON."
        ),
    ] = "",
) -> Response:
    """Answer a query. It is killed when it takes too long, and when nobody waits for it."""
    service = service_of(request)
    is_new = body.fresh or not service.queries.path.exists()
    await run_in_threadpool(service.publish if is_new else service.publish_ends)
    form = _form(accept)
    asked = service.queries.ask(Question(body.query, form, body.limit))
    answer = await _answered(asked, request)
    if answer is None:
        return Response(status_code=GONE)
    return StreamingResponse(
        _blocks(answer.file),
        media_type=MEDIA_TYPES[form],
        headers={
            "Content-Length": str(answer.size_bytes),
            "Trainledger-Position": str(answer.position),
            "Trainledger-Published-At": answer.published_at,
        },
    )


def _form(accept: str) -> str:
    """The format whose media type is asked for; JSON where that is none of ours."""
    wanted = {each.partition(";")[0].strip() for each in accept.split(",")}
    for form, media_type in MEDIA_TYPES.items():
        if media_type.partition(";")[0] in wanted:
            return form
    return "json"


async def _answered(asked: Asked, request: Request) -> Answer | None:
    """The answer; None when whoever asked left first."""
    answer = asyncio.wrap_future(asked.answer)
    left = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        left.cancel()
        if not answer.done():
            answer.cancel()
            asked.stop()


async def _left(request: Request) -> None:
    """Wait until whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _blocks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while block := await run_in_threadpool(file.read, BLOCK_BYTES):
            yield block
