"""Branches: ask for a child of a snapshot, see how far it is, and who came from whom."""

import secrets
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from api import past
from api.access import Principal, asker_of
from api.problems import SUBMISSION_NOT_FOUND, ProblemError
from api.routes.metrics import columns, reach
from api.routes.runs import AsOf, Position
from api.routes.service import service_of
from api.service import Service
from api.wire import Json, origin
from ledger import branch
from ledger.branch import BranchState, Child
from ledger.events import BranchRequested, Restore, submission_stream
from ledger.ledger import check_token
from projections.digest import config_sha256
from projections.documents.reading import MOST_BRANCHES
from projections.documents.timing import millis
from projections.warehouse import line
from projections.wire import moment

router = APIRouter(prefix="/v1/runs")
RESERVES_NOTHING = (
    "a preview creates nothing and reserves nothing: the snapshot may be gone when the branch is "
    "submitted"
)
ANCESTOR = ("runId", "name", "phase", "snapshotId", "step", "restore", "steps")


class Branch(BaseModel):
    """A snapshot, a budget, what is to differ, and a token that makes asking twice harmless."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    snapshot: str = Field(
        description="A committed snapshot of this run: its id, or an unambiguous beginning of it; "
        "fewer than 8 digits are no beginning, but the number of a step."
    )
    steps: int = Field(
        strict=True,
        lt=2**63,  # what a database holds
        description="The updates that the child may make; they are counted from 1.",
    )
    restore: Restore = Field(
        "weights",
        description="`weights`: begin anew with the adapter of the snapshot; `trainingState`: go "
        "on with its optimizer, random numbers and place in the data as well.",
    )
    overrides: dict[str, Any] = Field(
        {}, description="Fields of the [plan](plan.md) that are to be different in the child."
    )
    submission_id: str | None = Field(
        None, description="A token of your choice; the same again is the same child."
    )
    config_name: str | None = Field(None, description="The `name` of the child.")
    description: str | None = Field(None, description="The `description` of the child.")


@router.post("/{run_id}:branch", status_code=202)
def branch_run(
    body: Branch,
    run_id: str,
    request: Request,
    principal: Principal,
    dry_run: Annotated[
        bool, Query(alias="dryRun", description="Answer the resolved child; create nothing.")
    ] = False,
) -> Json:
    """Ask for a child that begins from a snapshot of this run.

    What is answered is durable. The same token and body again answer what they asked for before.
    """
    service = service_of(request)
    asked = _asked(service, body, service.find(run_id))
    token = secrets.token_hex(16) if body.submission_id is None else body.submission_id
    check_token(token)
    if not service.ledger.stream(submission_stream(token)):
        child = service.branches.preview(asked)
        service.check(child.plan, role=asker_of(request).role)
        if dry_run:
            return Json(_previewed(service, child, asked.steps))
    state, is_new = service.branches.request(asked, token=token, principal=principal)
    if dry_run:  # of what the token asked for before
        before = Child(state.origin, state.plan, state.stated)
        return Json(_previewed(service, before, state.steps))
    return Json(_requested(service, state), 202 if is_new else 200)


@router.get("/{run_id}/branches")
def list_branches(
    run_id: str,
    request: Request,
    _: Principal,
    limit: Annotated[int, Query(ge=1, le=MOST_BRANCHES, description="Branches of one page.")] = 50,
    before: Annotated[
        Position | None, Query(description="What the page before answered as `next`.")
    ] = None,
    submission: Annotated[
        str | None, Query(description="Only what this submission token asked for.")
    ] = None,
    as_of: AsOf = None,
) -> Json:
    """What was asked for of a run, newest first, refused branches too."""
    service = service_of(request)
    found = service.find(run_id)
    if submission is not None and as_of is None:
        return Json({"runId": found, "branches": [_of_token(service, found, submission)]})
    moment = past.moment_of_run(service, found, as_of)
    upto = past.upto(moment)
    if submission is not None and upto is not None:
        once = _once_of_token(service, found, submission, upto)
        return Json({"runId": found, "branches": [once]} | past.said(moment))
    page = service.documents.branches(found, limit, before, upto=upto)
    oldest = page[-1]["position"] if page else 0
    more = service.documents.branches(found, 1, oldest, upto=upto)
    after = oldest if more else None
    return Json({"runId": found, "branches": page, "next": after} | past.said(moment))


@router.get("/{run_id}/tree")
def read_tree(run_id: str, request: Request, _: Principal, as_of: AsOf = None) -> Json:
    """Every run of the tree that a run is in, each before its children."""
    service = service_of(request)
    found = service.find(run_id)
    moment = past.moment_of_run(service, found, as_of)
    root = service.documents.tree(found, past.upto(moment))
    return Json({"runId": found, "runs": list(_in_order(root))} | past.said(moment))


@router.get("/{run_id}/ancestry")
def read_ancestry(run_id: str, request: Request, _: Principal, as_of: AsOf = None) -> Json:
    """Every run from the root of the tree to this one, with what each began from."""
    service = service_of(request)
    found = service.find(run_id)
    moment = past.moment_of_run(service, found, as_of)
    line = service.documents.ancestry(found, past.upto(moment))
    ancestors = [{name: each[name] for name in ANCESTOR} for each in line]
    return Json({"runId": found, "runs": ancestors} | past.said(moment))


@router.get("/{run_id}/line")
def read_line(
    run_id: str,
    request: Request,
    _: Principal,
    field: Annotated[str, Query(description="The engine's own name of the number.")] = "loss",
    as_of: AsOf = None,
) -> Response:
    """One number along the line of a run: its ancestors up to where each was left, then its own."""
    service = service_of(request)
    found = service.find(run_id)
    if as_of is None:
        service.catch_up("documents", service.ledger.position())
    moment = reach(service, found, as_of)
    upto = past.upto(moment)
    ancestry = service.documents.ancestry(found, upto)
    runs = [{"runId": each.run_id, "before": each.before} for each in line.stretches(ancestry)]
    steps, values = line.series(service.warehouse, ancestry, field, upto=upto)
    facts = {"runId": found, "field": field, "runs": runs} | past.said(moment)
    return columns(facts, steps, values)


def _asked(service: Service, body: Branch, parent: str) -> branch.Request:
    return branch.Request(
        parent=parent,
        snapshot=body.snapshot,
        steps=body.steps,
        restore=body.restore,
        overrides=service.datasets.pinned(body.overrides),
        config_name=body.config_name,
        description=body.description,
    )


def _previewed(service: Service, child: Child, steps: int) -> dict[str, Any]:
    return {
        "resolved": child.plan,
        "stated": child.stated,
        "origin": origin(child.origin),
        "steps": steps,
        "note": RESERVES_NOTHING,
        "position": service.ledger.position(),
    }


def _requested(service: Service, state: BranchState) -> dict[str, Any]:
    return {
        "submissionId": state.token,
        "state": state.state,
        "refusal": _refusal(state),
        "childRunId": state.child,
        "parentRunId": state.origin.parent,
        "origin": origin(state.origin),
        "steps": state.steps,
        "position": service.ledger.position(),
    }


def _of_token(service: Service, parent: str, token: str) -> dict[str, Any]:
    """What a token asked for, as the list will show it, from the ledger itself.

    Raises:
        ProblemError: it asked for no branch of this run.
    """
    events = service.ledger.stream(submission_stream(token))
    if not events or not isinstance(events[0], BranchRequested):
        raise ProblemError(
            SUBMISSION_NOT_FOUND,
            f"no branch was submitted with token {token!r:.120}",
            "" if events else "nothing has arrived with it: it may be used",
        )
    requested, state = events[0], service.branches.state(token)
    if state.origin.parent != parent:
        raise ProblemError(
            SUBMISSION_NOT_FOUND,
            f"submission {token} asked for a branch of run {state.origin.parent}, not of {parent}",
        )
    listed = service.documents.branch(parent, token)
    return {
        "submissionId": token,
        "childRunId": state.child,
        "snapshotId": state.origin.snapshot_id,
        "sourceStep": state.origin.step,
        "restore": state.origin.restore,
        "steps": state.steps,
        "state": state.state,
        "refusal": _refusal(state),
        "configName": requested.config_name,
        "description": requested.description,
        "configHash": config_sha256(state.plan),
        "requestedAt": moment(millis(requested.at)),
        "position": listed["position"] if listed else None,
    }


def _once_of_token(service: Service, parent: str, token: str, upto: int) -> dict[str, Any]:
    """What a token had asked for when the ledger ended at a position.

    Raises:
        ProblemError: it had asked for no branch of this run.
    """
    branch = service.documents.branch(parent, token, upto)
    if branch is None:
        raise ProblemError(
            SUBMISSION_NOT_FOUND,
            f"as of position {upto}, no branch of run {parent} was submitted with token "
            f"{token!r:.120}",
        )
    return branch


def _refusal(state: BranchState) -> dict[str, str] | None:
    if state.refusal is None:
        return None
    return {"reason": state.refusal, "advice": state.advice}


def _in_order(root: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A tree's runs, each before its children, with their generation.

    No run is inside another: a chain of branches may be longer than JSON may be deep.
    """
    left = [(root, 0)] if root else []
    while left:
        run, generation = left.pop()
        yield {name: each for name, each in run.items() if name != "children"} | {
            "generation": generation
        }
        left += [(child, generation + 1) for child in reversed(run["children"])]
