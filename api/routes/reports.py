"""Deliveries of runners: lines of spools, signs of life, and how a worker ended."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.concurrency import run_in_threadpool

from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from engine.dispatch.dispatcher import Runner
from engine.failures import Exit
from ledger.events import Job
from ledger.reports import LAST_SECOND

router = APIRouter(prefix="/v1/runs")
Seconds = Annotated[float, Field(ge=0, le=LAST_SECOND)]  # since 1970 UTC
Number = Annotated[int, Field(ge=0, lt=2**31)]  # that an operating system gives


class Part(BaseModel):
    """A part of a delivery."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class RunnerPart(Part):
    """What the runner says of itself."""

    host: str
    pid: Number
    started_at: Seconds
    now: Seconds | None = None  # runners of an earlier version say it, and nobody needs it


class ExitPart(Part):
    """How the runner saw the worker end."""

    code: Number | None
    signal: Number | None
    at: Seconds | None
    oom_killed: bool | None
    seen: bool
    rank: Number | None = None  # of several, the one that ended the others
    hung: bool = False  # it kept the others waiting until they gave up


class Delivery(Part):
    """One delivery; without lines it is a sign of life."""

    first: Annotated[int, Field(ge=1)]  # number of the first line
    lines: list[str]
    runner: RunnerPart
    exit: ExitPart | None = None


@router.post("/{run_id}/attempts/{attempt}/reports")
async def deliver(run_id: str, attempt: int, request: Request) -> Json:
    """Take a delivery. Sending it again, after an answer was lost, changes nothing."""
    delivery = _delivery(await request.body())
    return await run_in_threadpool(_hear, service_of(request), run_id, Job(attempt), delivery)


@router.post("/{run_id}/preparations/{preparation}/reports")
async def deliver_of_preparation(run_id: str, preparation: int, request: Request) -> Json:
    """Take a delivery of the runner of a preparation, in the same way."""
    delivery, job = _delivery(await request.body()), Job(preparation, "preparation")
    return await run_in_threadpool(_hear, service_of(request), run_id, job, delivery)


def _delivery(body: bytes) -> Delivery:
    """The delivery that ``body`` says; its token is checked before it is read.

    Raises:
        RequestValidationError: it is none.
    """
    try:
        return Delivery.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**fault, "loc": ("body", *fault["loc"])} for fault in faults]
        ) from None


def _hear(service: Service, run_id: str, job: Job, delivery: Delivery) -> Json:
    answer = service.dispatcher.hear(
        run_id,
        job,
        runner=Runner(delivery.runner.host, delivery.runner.pid, _time(delivery.runner.started_at)),
        first=delivery.first,
        lines=delivery.lines,
        seen=None if delivery.exit is None else _exit(delivery.exit),
    )
    return Json(answer._asdict())


def _exit(part: ExitPart) -> tuple[Exit, datetime | None]:
    seen = Exit(part.code, part.signal, part.oom_killed, part.seen, part.rank, part.hung)
    return seen, None if part.at is None else _time(part.at)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
