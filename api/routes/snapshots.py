"""Snapshots: what a run saved, what is kept of it, and for how long."""

from typing import Any

from fastapi import APIRouter, Request

from api import past
from api.access import Principal
from api.routes.runs import AsOf
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from engine.dispatch.artifacts import DamagedError
from ledger import snapshots as rules

router = APIRouter(prefix="/v1")


@router.get("/runs/{run_id}/snapshots")
def list_snapshots(run_id: str, request: Request, _: Principal, as_of: AsOf = None) -> Json:
    """Every snapshot that a run committed, newest first; also those that are given up."""
    service = service_of(request)
    found = service.find(run_id)
    moment = past.moment_of_run(service, found, as_of)
    snapshots = service.documents.snapshots(found, past.upto(moment))[::-1]
    return Json({"runId": found, "snapshots": snapshots} | past.said(moment))


@router.get("/snapshots/{snapshot_id}")
def get_snapshot(snapshot_id: str, request: Request, _: Principal, as_of: AsOf = None) -> Json:
    """One snapshot, with every file of it."""
    service = service_of(request)
    snapshot = service.snapshot(snapshot_id)
    if as_of is None:
        return Json(_whole(service, snapshot))
    moment = past.moment_of(service, as_of, "documents")
    return Json(_whole(service, past.snapshot(service, snapshot, moment)) | past.said(moment))


@router.post("/snapshots/{snapshot_id}:pin")
def pin_snapshot(snapshot_id: str, request: Request, principal: Principal) -> Json:
    """Keep a snapshot, whatever the plan's keep counts say."""
    return _pinned(service_of(request), snapshot_id, principal, pinned=True)


@router.post("/snapshots/{snapshot_id}:unpin")
def unpin_snapshot(snapshot_id: str, request: Request, principal: Principal) -> Json:
    """Keep a snapshot for as long as the plan's keep counts say."""
    return _pinned(service_of(request), snapshot_id, principal, pinned=False)


@router.post("/runs/{run_id}:sweep")
def sweep_snapshots(run_id: str, request: Request, principal: Principal) -> Json:
    """Delete what the plan's keep counts leave over, and what nothing refers to."""
    service = service_of(request)
    found = service.find(run_id)
    freed = service.keeper.sweep(found, principal=principal)
    return Json({"runId": found, "freedBytes": freed})


def _pinned(service: Service, prefix: str, principal: str, *, pinned: bool) -> Json:
    """The snapshot once it is pinned, or not any more."""
    snapshot = service.snapshot(prefix)
    snapshot_id = snapshot["snapshotId"]
    service.ledger.decide(
        snapshot["runId"],
        lambda state, stamp: rules.pin_snapshot(
            state, stamp, snapshot_id=snapshot_id, pinned=pinned
        ),
        principal=principal,
    )
    return Json(_whole(service, service.snapshot(snapshot_id)))


def _whole(service: Service, snapshot: dict[str, Any]) -> dict[str, Any]:
    """The snapshot with its files and their writer; of one that was swept nobody knows them."""
    if not snapshot["artifacts"]:
        return snapshot
    try:
        manifest = service.artifacts.manifest(snapshot["runId"], snapshot["snapshotId"])
    except DamagedError as error:
        return snapshot | {"manifest": None, "manifestFault": str(error)}
    said = manifest.model_dump(mode="json", by_alias=True)
    return snapshot | {"writer": manifest.facts.get("writer"), "manifest": said}
