"""The devices of this server: which run holds each, and which runs wait, in their order."""

from typing import Any

from fastapi import APIRouter, Request

from api.access import Principal
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.run import RunState
from projections import wire
from projections.documents.timing import millis

router = APIRouter()


@router.get("/v1/capacity")
def capacity(request: Request, _: Principal) -> Json:
    """Which run holds each device, and which runs wait, the one that is next first."""
    service = service_of(request)
    service.catch_up("documents", service.ledger.position())
    holders = service.pool.holders()
    states = [service.ledger.run(run_id) for run_id in service.ledger.open_runs()]
    return Json(
        {
            "devices": [
                {
                    "device": slot,
                    "heldBy": _holder(service, holders.get(slot)),
                    **_gpu(service, slot),
                }
                for slot in service.pool.slots
            ],
            "waiting": [_waiting(service, each) for each in states if each.wants_devices],
        }
    )


def _gpu(service: Service, slot: str) -> dict[str, Any]:
    """What a device is, as far as its driver told."""
    gpu = service.gpus.get(slot)
    return {
        "model": gpu.name if gpu else None,
        "memoryBytes": gpu.memory_bytes if gpu else None,
    }


def _holder(service: Service, run_id: str | None) -> dict[str, Any] | None:
    """The run that holds a device, with its attempt; None where nobody does."""
    if run_id is None:
        return None
    state = service.ledger.run(run_id)
    attempt = state.attempt
    return _labels(service, state) | {
        "phase": state.phase.value,
        "attempt": attempt.number if attempt else None,
        "since": wire.moment(millis(attempt.opened_at)) if attempt else None,
    }


def _waiting(service: Service, state: RunState) -> dict[str, Any]:
    return _labels(service, state) | {
        "phase": state.phase.value,
        "devices": state.plan["execution"]["devices"],
        "waitingFor": state.waiting_for,
    }


def _labels(service: Service, state: RunState) -> dict[str, Any]:
    """Its id, its project, and the name that it has now."""
    row = service.documents.row(state.run_id)
    name = state.plan["name"] if row is None else row.name
    return {"runId": state.run_id, "project": state.plan["project"], "name": name}
