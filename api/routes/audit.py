"""Proof: whether the ledger is true, who did what in a run, and a receipt to take away."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from api import receipt
from api.access import Principal
from api.routes.service import service_of
from api.wire import Json
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
