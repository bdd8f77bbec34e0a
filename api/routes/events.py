"""The events of a run, as lines of JSON or as server-sent events, resumable by position."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api import problems
from api.access import Principal, check_again
from api.routes.runs import Position
from api.routes.service import service_of
from api.service import Service
from api.wire import dump, kind, tell
from ledger.events import Recorded
from ledger.run import ENDS

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
    after: Annotated[Position, Query(description="Only events after this position.")] = 0,
    follow: Annotated[bool, Query(description="Go on with events as they come.")] = False,
    accept: Annotated[str, Header(description="`text/event-stream`, else JSON lines.")] = "",
    last_event_id: Annotated[
        Position | None, Header(description="What a browser saw last; it wins over `after`.")
    ] = None,
) -> StreamingResponse:
    """Events after a position; with ``follow``, as they come, until the run has ended."""
    service = service_of(request)
    found = await run_in_threadpool(service.find, run_id)
    is_sse = SSE in accept
    start = last_event_id if last_event_id is not None else after
    stream = _stream(request, found, start, follow=follow, is_sse=is_sse)
    return StreamingResponse(
        _to_its_end(stream, request, is_sse=is_sse),
        media_type=SSE if is_sse else "application/jsonl",
        headers=NO_BUFFERING,
    )


async def _stream(
    request: Request, run_id: str, after: int, *, follow: bool, is_sse: bool
) -> AsyncIterator[bytes]:
    """What a follower reads; an empty line or comment every few seconds shows that we are there.

    Raises:
        ProblemError: the token that the follower came with counts no more.
    """
    service = service_of(request)
    write, heartbeat = (_sse, b":\n\n") if is_sse else (_line, b"\n")
    has_ended = await _has_ended(service, run_id)  # before reading: a later end is read below
    while True:
        seen = service.ledger.position()  # before reading: what comes meanwhile wakes us again
        check_again(request)
        page = await run_in_threadpool(service.ledger.read_run, run_id, after, PAGE)
        end = next((n for n, each in enumerate(page) if type(each.event) in ENDS), None)
        if follow and end is not None:  # what becomes of its snapshots later is no news of the run
            yield b"".join(write(each) for each in page[: end + 1])
            return
        if page:
            yield b"".join(write(each) for each in page)
            after = page[-1].position
            continue
        if not follow or has_ended or service.hub.is_stopping:
            return
        if not await service.hub.wait_beyond(seen, HEARTBEAT_SECONDS):
            yield heartbeat


async def _to_its_end(
    stream: AsyncIterator[bytes], request: Request, *, is_sse: bool
) -> AsyncIterator[bytes]:
    """The stream; when it cannot go on, its last line is the problem."""
    try:
        async for part in stream:
            yield part
    except problems.TOLD as error:
        said = bytes(problems.of(error, request).body)
        yield b"event: problem\ndata: %s\n\n" % said if is_sse else said + b"\n"


async def _has_ended(service: Service, run_id: str) -> bool:
    state = await run_in_threadpool(service.ledger.run, run_id)
    return state.has_ended


def _line(recorded: Recorded) -> bytes:
    return dump(tell(recorded)) + b"\n"


def _sse(recorded: Recorded) -> bytes:
    """One server-sent event. Source: HTML Living Standard, section 9.2."""
    name = "terminal" if type(recorded.event) in ENDS else kind(recorded.event)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        recorded.position,
        name.encode(),
        dump(tell(recorded)),
    )
