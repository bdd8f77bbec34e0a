"""The events of a run, as lines of JSON or as server-sent events, resumable by position."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api.routes.runs import Principal
from api.routes.service import service_of
from api.service import Service
from api.wire import TERMINAL_PHASES, dump, kind, tell
from ledger.events import Recorded

router = APIRouter(prefix="/v1/runs")

HEARTBEAT_SECONDS = 10.0
PAGE = 500
SSE = "text/event-stream"
NO_BUFFERING = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # for proxies


@router.get("/{run_id}/events")
async def read_events(
    run_id: str,
    request: Request,
    _: Principal,
    after: Annotated[int, Query(ge=0)] = 0,
    follow: bool = False,
    accept: Annotated[str, Header()] = "",
    last_event_id: Annotated[int | None, Header()] = None,
) -> StreamingResponse:
    """Events after a position; with ``follow``, as they come, until the run has ended."""
    service = service_of(request)
    found = await run_in_threadpool(service.find, run_id)
    is_sse = SSE in accept
    start = last_event_id if last_event_id is not None else after
    return StreamingResponse(
        _stream(service, found, start, follow=follow, is_sse=is_sse),
        media_type=SSE if is_sse else "application/jsonl",
        headers=NO_BUFFERING,
    )


async def _stream(
    service: Service, run_id: str, after: int, *, follow: bool, is_sse: bool
) -> AsyncIterator[bytes]:
    """What a follower reads; an empty line or comment every few seconds shows that we are there."""
    write, heartbeat = (_sse, b":\n\n") if is_sse else (_line, b"\n")
    while True:
        seen = service.ledger.position()  # before reading: what comes meanwhile wakes us again
        page = await run_in_threadpool(service.ledger.read_run, run_id, after, PAGE)
        if page:
            yield b"".join(write(each) for each in page)
            after = page[-1].position
            continue
        if not follow or service.hub.is_stopping or await _has_ended(service, run_id):
            return
        if not await service.hub.wait_beyond(seen, HEARTBEAT_SECONDS):
            yield heartbeat


async def _has_ended(service: Service, run_id: str) -> bool:
    state = await run_in_threadpool(service.ledger.run, run_id)
    return state.has_ended


def _line(recorded: Recorded) -> bytes:
    return dump(tell(recorded)) + b"\n"


def _sse(recorded: Recorded) -> bytes:
    """One server-sent event. Source: HTML Living Standard, section 9.2."""
    name = "terminal" if type(recorded.event) in TERMINAL_PHASES else kind(recorded.event)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        recorded.position,
        name.encode(),
        dump(tell(recorded)),
    )
