"""Who may do what: a role for each route, asked for before anything else; no role, no entry.

``docs/http.md`` has the same as a table, and ``docs/access.md`` says what the roles are.
"""

import hmac
from typing import Annotated, Literal, NamedTuple

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from api.auth import PRINCIPAL, bearer
from api.problems import FORBIDDEN, UNAUTHORIZED, ProblemError
from api.service import Service
from ledger.events import Job, JobKind, RoleName
from ledger.tokens import Token, allows

Needed = RoleName | Literal["anybody", "worker"]

NEEDED: dict[str, Needed] = {
    "health": "anybody",
    "deliver": "worker",  # the one of the very attempt
    "deliver_of_preparation": "worker",  # the one of the very preparation
    # -- what a reader may: look
    "info": "reader",
    "capacity": "reader",
    "whoami": "reader",
    "list_runs": "reader",
    "get_run": "reader",
    "read_events": "reader",
    "read_metrics": "reader",
    "read_buckets": "reader",
    "read_file": "reader",
    "read_series": "reader",
    "read_logs": "reader",
    "read_event_files": "reader",
    "read_hparams": "reader",
    "read_engine_config": "reader",
    "compare_runs": "reader",
    "link_to_grafana": "reader",  # who sees everything here can pass it on without a link as well
    "list_branches": "reader",
    "read_tree": "reader",
    "read_ancestry": "reader",
    "read_line": "reader",
    "list_snapshots": "reader",
    "read_rollouts": "reader",
    "get_snapshot": "reader",
    "read_audit_log": "reader",
    "read_receipt": "reader",
    "list_datasets": "reader",
    "get_dataset": "reader",
    "audit": "reader",
    "read_copy": "reader",
    "publish_copy": "reader",  # as a query with `fresh` does
    "run_query": "reader",
    # -- what a submitter may: have things trained, and look after it
    "submit_run": "submitter",
    "import_run": "submitter",
    "branch_run": "submitter",
    "cancel_run": "submitter",
    "pause_run": "submitter",
    "resume_run": "submitter",
    "annotate_run": "submitter",
    "pin_snapshot": "submitter",
    "unpin_snapshot": "submitter",
    "check_dataset": "submitter",  # it opens what files the server can, as a run does
    "create_dataset": "submitter",  # likewise
    # -- what an operator may: everything else
    "sweep_snapshots": "operator",
    "make_seal_key": "operator",
    "rebuild_projections": "operator",
    "export_ledger": "operator",
    "back_up": "operator",
    "replay_ledger": "operator",
    "create_token": "operator",
    "list_tokens": "operator",
    "revoke_token": "operator",
}  # by the name of the function that answers
JOB_HINT = "the file job.json in the folder of the job has its token"
UNKNOWN = "the request carries no token that is known here and counts"  # whatever became of it


class Asker(NamedTuple):
    """Who asks."""

    principal: str
    role: RoleName | Literal["worker"]
    token: Token | None = None  # None: the token of the home, or that of a job


async def require(request: Request) -> str:
    """The principal who asks, if that one may.

    Raises:
        ProblemError: who asks is not known, or the role does not allow it.
    """
    service: Service = request.app.state.service
    needed = NEEDED.get(request.scope["route"].name)
    if needed == "anybody":
        return needed
    token = bearer(request)
    if needed == "worker":
        job = _job(request)
        if job is not None and service.dispatcher.tokens.admits(
            request.path_params["run_id"], job, token
        ):
            return job.principal
        hint = JOB_HINT
    else:
        hint = ""
    asker = await _asker(service, token)
    if asker is None:
        raise ProblemError(UNAUTHORIZED, UNKNOWN, hint)
    if needed is None or needed == "worker" or not allows(asker.role, needed):
        raise _forbidden(request, asker, needed)
    request.state.asker = asker
    return asker.principal


Principal = Annotated[str, Depends(require)]


def asker_of(request: Request) -> Asker:
    """Who asks, where ``require`` has found that out."""
    asker: Asker = request.state.asker
    return asker


def still_counts(request: Request) -> bool:
    """Whether who asked would be let in again now: a stream may outlive its token."""
    service: Service = request.app.state.service
    token = asker_of(request).token
    return token is None or service.tokens.counts(token)


def check_again(request: Request) -> None:
    """Let a stream go on.

    Raises:
        ProblemError: the token that it was asked for with counts no more.
    """
    if not still_counts(request):
        raise ProblemError(UNAUTHORIZED, UNKNOWN)


async def _asker(service: Service, token: str) -> Asker | None:
    """Whose token it is; None where it is nobody's, or counts no more."""
    if hmac.compare_digest(token.encode(), service.token.encode()):
        return Asker(PRINCIPAL, "operator")
    known = service.tokens.find(token)
    if known is not None:
        return Asker(known.principal, known.role, known)
    reporter = await run_in_threadpool(service.dispatcher.tokens.reporter, token) if token else None
    return None if reporter is None else Asker(reporter[1].principal, "worker")


def _job(request: Request) -> Job | None:
    """The job that the address names; None where it names none."""
    kinds: tuple[JobKind, ...] = ("attempt", "preparation")
    for kind in kinds:
        number = str(request.path_params.get(kind))
        if number.isdecimal() and number.isascii():
            return Job(int(number), kind)
    return None


def _forbidden(request: Request, asker: Asker, needed: Needed | None) -> ProblemError:
    what = f"{request.method} {request.scope['route'].path}"
    mine = f"{asker.principal} has the role {asker.role}"
    if needed is None:
        return ProblemError(FORBIDDEN, f"{what} is open to nobody, and {mine}")
    if needed == "worker":
        return ProblemError(
            FORBIDDEN,
            f"{what} is for the runner of that very job, and {mine}",
            JOB_HINT,
        )
    hint = f"an operator makes one: trainledger tokens create NAME --role {needed}"
    return ProblemError(FORBIDDEN, f"{what} needs the role {needed}, and {mine}", hint)
