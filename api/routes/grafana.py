"""A link to a run on the Grafana dashboard of a project."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.access import Principal
from api.routes.runs import Attempt
from api.routes.service import service_of
from api.wire import Json

router = APIRouter(prefix="/v1/runs")


class Wanted(BaseModel):
    """What the link shows."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    platform_project: str = Field(
        max_length=1_000,
        description="The platform project, one of the server's setting `grafana_dashboards`.",
    )
    attempt: Attempt | None = Field(
        None, description="The attempt that is shown; null: what the dashboard shows by itself."
    )


@router.post("/{run_id}:grafana")
def link_to_grafana(body: Wanted, run_id: str, request: Request, _: Principal) -> Json:
    """Make a link to a run in Grafana. Whoever has it is let in until it expires."""
    service = service_of(request)
    found = service.find(run_id)
    if body.attempt is not None:
        service.attempt(found, body.attempt)
    link = service.grafana.link(
        service.record(found), project=body.platform_project, attempt=body.attempt
    )
    answer = {
        "runId": found,
        "platformProject": body.platform_project,
        "attempt": body.attempt,
        "url": link.url,
        "expiresAt": link.expires_at,
    }
    return Json(answer, headers={"Cache-Control": "no-store"})
