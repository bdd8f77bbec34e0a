"""What the worker of a job printed, as text, whole or as it comes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api.access import Principal, still_counts
from api.logs import WorkerLog
from api.routes.events import NO_BUFFERING
from api.routes.runs import Attempt
from api.routes.service import service_of
from api.service import Service
from ledger.events import Job

router = APIRouter(prefix="/v1/runs")

LOOK_SECONDS = 0.2  # between two looks at a file that may have grown
TEXT = "text/plain; charset=utf-8"
AS_TEXT = NO_BUFFERING | {"X-Content-Type-Options": "nosniff"}  # whatever a worker prints


@router.get("/{run_id}/logs")
async def read_logs(
    run_id: str,
    request: Request,
    _: Principal,
    attempt: Annotated[
        Attempt | None, Query(description="Its number; by default the last.")
    ] = None,
    preparation: Annotated[
        Attempt | None,
        Query(
            description="What the preparation of this number printed instead; by default the last "
            "one of a run that has had no attempt."
        ),
    ] = None,
    follow: Annotated[
        bool, Query(description="Go on with what comes, until the attempt or preparation is over.")
    ] = False,
    tail: Annotated[int | None, Query(ge=0, description="Only the last so many lines.")] = None,
) -> StreamingResponse:
    """What the worker of an attempt, or a preparation, printed, byte for byte."""
    service = service_of(request)
    found = await run_in_threadpool(service.find, run_id)
    job = await run_in_threadpool(service.job, found, attempt=attempt, preparation=preparation)
    log = WorkerLog(service.attempts, found, job, tail=tail)
    return StreamingResponse(
        _stream(request, log, run_id=found, job=job, follow=follow),
        media_type=TEXT,
        headers=AS_TEXT,
    )


async def _stream(
    request: Request, log: WorkerLog, *, run_id: str, job: Job, follow: bool
) -> AsyncIterator[bytes]:
    """The blocks of a log; a follower gets them until the job is closed, or the token ends."""
    service = service_of(request)
    try:
        is_over = False
        while not is_over:
            is_closed = await run_in_threadpool(_is_closed, service, run_id, job)
            is_over = is_closed or not follow or service.hub.is_stopping
            is_over = is_over or not still_counts(request)
            left = await run_in_threadpool(log.left)  # after looking: all that it printed is there
            while left > 0 and (block := await run_in_threadpool(log.read, left)):
                left -= len(block)
                yield block
            if not is_over:
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        log.close()


def _is_closed(service: Service, run_id: str, job: Job) -> bool:
    current = service.ledger.run(run_id).open_job
    return current is None or current.job != job
