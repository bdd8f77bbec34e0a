"""Runs: submit, list, read, cancel."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.auth import require
from api.routes.service import service_of
from api.wire import Json
from ledger import plan as plans
from ledger.errors import LedgerError
from ledger.run import TERMINAL, Phase

router = APIRouter(prefix="/v1/runs")
Principal = Annotated[str, Depends(require)]


class Submit(BaseModel):
    """A plan, and a token that makes asking twice harmless."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    plan: Any
    submission_id: str | None = Field(None, description="Token of this submission.")


@router.post("", status_code=201)
def submit_run(
    body: Submit,
    request: Request,
    principal: Principal,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
) -> Json:
    """Submit a plan. The same token and plan again answer the run that they made before."""
    service = service_of(request)
    plan = service.check(body.plan)
    if dry_run:
        resolved, stated = plans.resolve(plan)
        return Json({"resolved": resolved, "stated": stated})
    made = service.ledger.submit(body.plan, token=body.submission_id, principal=principal)
    service.catch_up("documents", made.position)
    record = service.record(made.run_id)
    answer = {
        "runId": made.run_id,
        "submissionId": record["submissionId"],
        "created": made.created,
        "phase": record["phase"],
        "position": made.position,
    }
    return Json(answer, 201 if made.created else 200)


@router.get("")
def list_runs(
    request: Request,
    _: Principal,
    phase: Annotated[list[str], Query()] = [],  # noqa: B006  FastAPI copies it
    project: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: int | None = None,
) -> Json:
    """Runs, newest first; ``phase=open`` are those that have not ended."""
    service = service_of(request)
    service.catch_up("documents", service.ledger.position())
    rows, after = service.documents.list(
        phases=_phases(phase) if phase else None, project=project, limit=limit, before=before
    )
    return Json({"runs": rows, "next": after})


@router.get("/{run_id}")
def get_run(run_id: str, request: Request, _: Principal) -> Json:
    """The whole record of a run."""
    service = service_of(request)
    return Json(service.record(service.find(run_id)))


@router.post("/{run_id}:cancel", status_code=202)
def cancel_run(run_id: str, request: Request, principal: Principal) -> Json:
    """Ask for a run to end; it is CANCELLED when its job has stopped."""
    service = service_of(request)
    state = service.dispatcher.cancel(service.find(run_id), principal=principal)
    return Json({"runId": state.run_id, "phase": state.phase}, 202)


def _phases(names: list[str]) -> set[str]:
    """The phases that ``names`` ask for.

    Raises:
        LedgerError: one of them is no phase.
    """
    phases: set[str] = set()
    for name in names:
        if name.lower() == "open":
            phases |= {phase for phase in Phase if phase not in TERMINAL}
        elif name.upper() in Phase.__members__:
            phases.add(name.upper())
        else:
            raise LedgerError(
                f"{name!r} is no phase", f"phases are open, {', '.join(Phase.__members__)}"
            )
    return phases
