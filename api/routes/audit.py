"""Proof: whether the ledger is true, who did what in a run, and a receipt to take away."""

from collections.abc import Generator
from contextlib import closing
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api import problems, receipt
from api.access import Principal
from api.routes.events import NO_BUFFERING
from api.routes.service import service_of
from api.streams import Parts
from api.wire import Json, dump
from ledger import signing

router = APIRouter(prefix="/v1")


@router.post("/audit")
def audit(
    request: Request,
    _: Principal,
    run: Annotated[
        str | None, Query(description="Only this run, and what the seals say of it.")
    ] = None,
) -> Json:
    """Check every event against its chain and the seals, and the projections against a replay."""
    service = service_of(request)
    return Json(service.auditor.verify(None if run is None else service.find(run)))


@router.post("/audit/rebuild")
def rebuild_projections(
    request: Request,
    _: Principal,
    projection: Annotated[
        Literal["documents", "warehouse"] | None, Query(description="Only this one.")
    ] = None,
) -> Response:
    """Make projections anew from the first event on, and put them in the place of the live ones."""
    told = service_of(request).rebuilder.rebuild(projection)
    first = next(told)  # what is refused, is refused before anything is said
    lines = _lines(first, told, request)
    return Parts(lines, media_type="application/jsonl", headers=NO_BUFFERING)


def _lines(
    first: dict[str, Any], told: Generator[dict[str, Any], None, None], request: Request
) -> Generator[bytes, None, None]:
    """Each on a line; when it cannot go on, the last line is the problem."""
    with closing(told):
        try:
            for each in chain([first], told):
                yield dump(each) + b"\n"
        except problems.TOLD as error:
            yield bytes(problems.of(error, request).body) + b"\n"


@router.post("/audit/key", status_code=201)
def make_seal_key(request: Request, _: Principal) -> Json:
    """Make the key that seals are signed with from now on; it never leaves the server's home."""
    path = service_of(request).seal_key
    return Json({"publicKey": signing.make_key(path).public, "file": str(path)}, 201)


@router.get("/runs/{run_id}/audit-log")
def read_audit_log(run_id: str, request: Request, _: Principal) -> Json:
    """The life of a run with who caused each event; not what its attempts reported."""
    service = service_of(request)
    return Json(receipt.log(service, service.find(run_id)))


@router.get("/runs/{run_id}/receipt")
def read_receipt(run_id: str, request: Request, _: Principal) -> Json:
    """What a run was, what it cost and who did what, with the digests that prove it."""
    service = service_of(request)
    return Json(receipt.receipt(service, service.find(run_id)))
