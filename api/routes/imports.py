"""Histories of other trackers become runs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from api.access import Principal
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger import histories, imports
from ledger.errors import LedgerError

router = APIRouter(prefix="/v1/runs")
READ_SECONDS = 60.0  # so long the answer waits for a long history to be readable as a whole


@router.post(":import", status_code=201)
async def import_run(
    request: Request,
    principal: Principal,
    submission_id: Annotated[
        str | None,
        Query(
            alias="submissionId",
            description="A token of your choice; by default the digest of the imported file is it.",
        ),
    ] = None,
) -> Json:
    """Make a run of the lines of a history. The same lines again answer the same run."""
    body = await request.body()
    return await run_in_threadpool(_take, service_of(request), body, submission_id, principal)


def _take(service: Service, body: bytes, token: str | None, principal: str) -> Json:
    try:
        lines = body.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise LedgerError(f"the history is no UTF-8 text: byte {error.start + 1} is not") from None
    made = imports.take(service.ledger, histories.read(lines), token=token, principal=principal)
    run_id, created, position = made.submission
    for follower in service.followers.values():
        follower.wait_for(position, READ_SECONDS)
    answer = {
        "runId": run_id,
        "submissionId": made.token,
        "created": created,
        "phase": service.ledger.run(run_id).phase,
        "position": position,
        "steps": made.steps,
        "validations": made.validations,
    }
    return Json(answer, 201 if created else 200)
