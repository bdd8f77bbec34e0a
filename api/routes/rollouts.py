"""Rollouts: what a model made of its prompts, and what that was worth, one update at a time."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from api import past
from api.access import Principal
from api.problems import BAD_REQUEST, ROLLOUTS_NOT_FOUND, ProblemError
from api.routes.metrics import LAST, position_of, reach
from api.routes.runs import AsOf, Attempt
from api.routes.service import service_of
from api.wire import Json
from projections.warehouse import rollouts
from projections.warehouse.rollouts import Order, Which

router = APIRouter(prefix="/v1/runs")
MOST = 200  # rollouts of one answer
RANGES = 10  # of updates that a sentence names

Most = Annotated[int | None, Field(ge=1, le=MOST)]


class Asked(BaseModel):
    """Which update, and which of its rollouts."""

    step: int | None = Field(
        None, ge=1, le=LAST, description="The update; the newest that has rollouts by default."
    )
    best: Most = Field(None, description="Only so many, the highest scores first.")
    worst: Most = Field(None, description="Only so many, the lowest scores first.")
    limit: Most = Field(None, description="Only so many, in the order of scoring.")
    superseded: bool = Field(False, description="Also what a restore took back, and marked so.")
    attempt: Attempt | None = Field(
        None, description="What this attempt scored, whole: what was taken back is marked."
    )
    as_of: AsOf = None

    def order(self) -> tuple[Order, int]:
        """The order that is asked for, and how many of it.

        Raises:
            ProblemError: several orders are.
        """
        if sum(each is not None for each in (self.best, self.worst, self.limit)) > 1:
            raise ProblemError(BAD_REQUEST, "state one of best, worst and limit")
        if self.best is not None:
            return "best", self.best
        if self.worst is not None:
            return "worst", self.worst
        return "scoring", self.limit or MOST


@router.get("/{run_id}/rollouts")
def read_rollouts(
    run_id: str, request: Request, _: Principal, asked: Annotated[Asked, Query()]
) -> Json:
    """The rollouts of one update; `steps` has the updates that have some."""
    order, most = asked.order()
    service = service_of(request)
    found = service.find(run_id)
    moment = reach(service, found, asked.as_of, asked.attempt)
    which = Which(asked.superseded, asked.attempt, past.upto(moment))
    counts = rollouts.counts(service.warehouse, found, which)
    if asked.step is not None and asked.step not in counts:
        raise ProblemError(ROLLOUTS_NOT_FOUND, _missing(found, asked.step, list(counts)))
    step = max(counts, default=None) if asked.step is None else asked.step
    told = (
        []
        if step is None
        else rollouts.rollouts(service.warehouse, found, step, which, order=order, most=most)
    )
    said = {
        "runId": found,
        "position": position_of(service, moment),
        "step": step,
        "count": 0 if step is None else counts[step],
        "rollouts": told,
        "steps": list(counts),
    }
    return Json(said | past.said(moment))


def _missing(run_id: str, step: int, kept: Sequence[int]) -> str:
    """Which updates have rollouts, since this one has none."""
    if not kept:
        return f"run {run_id} kept no rollouts"
    ranges = list(_ranges(kept))
    told = ", ".join(ranges[:RANGES]) + (" and others" if len(ranges) > RANGES else "")
    return f"run {run_id} kept no rollouts of update {step}, it kept those of {told}"


def _ranges(steps: Sequence[int]) -> list[str]:
    """Rising numbers as stretches of neighbours: ``1 to 4``, ``7``."""
    stretches: list[list[int]] = []
    for step in steps:
        if stretches and step == stretches[-1][-1] + 1:
            stretches[-1][1:] = [step]
        else:
            stretches.append([step])
    return [" to ".join(map(str, each)) for each in stretches]
