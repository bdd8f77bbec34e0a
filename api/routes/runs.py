"""Runs: submit, list, read, cancel, pause, resume."""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api import past
from api.access import Principal, asker_of
from api.routes.service import service_of
from api.wire import Json
from ledger import plan as plans
from ledger.errors import LedgerError
from ledger.events import Checkpoint
from ledger.run import TERMINAL, Phase

router = APIRouter(prefix="/v1/runs")
Position = Annotated[int, Field(ge=0, lt=2**63)]  # what a database holds
Attempt = Annotated[int, Field(ge=1, lt=2**31)]
AsOf = Annotated[
    str | None,
    Query(
        alias="asOf",
        description="As it was at a position of the ledger, or at a time such as "
        "`2026-11-29T18:00:00Z`.",
    ),
]


class Submit(BaseModel):
    """A plan, and a token that makes asking twice harmless."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    plan: Any = Field(description="What to run; `docs/plan.md` has every field.")
    submission_id: str | None = Field(
        None, description="A token of your choice; the same again is the same run."
    )


class Pause(BaseModel):
    """How a run is paused."""

    model_config = ConfigDict(extra="forbid")

    checkpoint: Checkpoint = Field(
        description="`save`: keep every update so far; `latest`: give up the updates since the "
        "newest snapshot that can be resumed from."
    )


@router.post("", status_code=201)
def submit_run(
    body: Submit,
    request: Request,
    principal: Principal,
    dry_run: Annotated[
        bool, Query(alias="dryRun", description="Answer the resolved plan; create nothing.")
    ] = False,
) -> Json:
    """Submit a plan. The same token and plan again answer the run that they made before."""
    service = service_of(request)
    document = service.datasets.pinned(body.plan)
    plan = service.check(document, role=asker_of(request).role)
    if dry_run:
        resolved, stated = plans.resolve(plan)
        return Json({"resolved": resolved, "stated": stated})
    token = secrets.token_hex(16) if body.submission_id is None else body.submission_id
    made = service.ledger.submit(document, token=token, principal=principal)
    service.catch_up("documents", made.position)
    answer = {
        "runId": made.run_id,
        "submissionId": token,
        "created": made.created,
        "phase": service.ledger.run(made.run_id).phase,
        "position": made.position,
    }
    return Json(answer, 201 if made.created else 200)


@router.get("")
def list_runs(
    request: Request,
    _: Principal,
    phase: Annotated[
        list[str], Query(description="Only runs in this phase; may be given several times.")
    ] = [],  # noqa: B006  FastAPI copies it
    project: Annotated[str | None, Query(description="Only runs of this project.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Runs of one page.")] = 50,
    before: Annotated[
        Position | None, Query(description="What the page before answered as `next`.")
    ] = None,
    as_of: AsOf = None,
) -> Json:
    """Runs, newest first; ``phase=open`` are those that have not ended."""
    service = service_of(request)
    moment = None if as_of is None else past.moment_of(service, as_of, "documents")
    if moment is None:
        service.catch_up("documents", service.ledger.position())
    rows, after = service.documents.list(
        phases=_phases(phase) if phase else None,
        project=project,
        limit=limit,
        before=before,
        upto=None if moment is None else moment.position,
    )
    return Json({"runs": rows, "next": after} | past.said(moment))


@router.get("/{run_id}")
def get_run(
    run_id: str,
    request: Request,
    _: Principal,
    attempt: Annotated[
        Attempt | None, Query(description="Settings as they were in this attempt.")
    ] = None,
    as_of: AsOf = None,
) -> Json:
    """The whole record of a run."""
    service = service_of(request)
    found = service.find(run_id)
    if as_of is None:
        return Json(service.record(found, attempt=attempt))
    moment = past.moment_of(service, as_of, "documents")
    return Json(past.record(service, found, moment, attempt=attempt))


@router.post("/{run_id}:cancel", status_code=202)
def cancel_run(run_id: str, request: Request, principal: Principal) -> Json:
    """Ask for a run to end; it is CANCELLED when its job has stopped."""
    service = service_of(request)
    state = service.dispatcher.cancel(service.find(run_id), principal=principal)
    return Json({"runId": state.run_id, "phase": state.phase}, 202)


@router.post("/{run_id}:pause", status_code=202)
def pause_run(body: Pause, run_id: str, request: Request, principal: Principal) -> Json:
    """Ask for a run to give its devices back; it is PAUSED when they are free."""
    service = service_of(request)
    state = service.dispatcher.pause(
        service.find(run_id), checkpoint=body.checkpoint, principal=principal
    )
    record = service.record(state.run_id)
    said = {name: record[name] for name in ("runId", "phase", "pause")}
    return Json(said, 202)


@router.post("/{run_id}:resume", status_code=202)
def resume_run(run_id: str, request: Request, principal: Principal) -> Json:
    """Have a paused run go on from what it saved, as soon as there are devices."""
    service = service_of(request)
    state = service.dispatcher.resume(service.find(run_id), principal=principal)
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
