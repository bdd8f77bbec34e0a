"""Words that people put to a run, at any time: a name, a description, labels."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from api.access import Principal
from api.routes.service import service_of
from api.wire import Json
from ledger import lifecycle

router = APIRouter(prefix="/v1/runs")
Text = Annotated[str, Field(max_length=10_000)]
Label = Annotated[str, Field(min_length=1, max_length=100)]


class Annotation(BaseModel):
    """What changes; an empty text takes a word away."""

    model_config = ConfigDict(extra="forbid")

    name: Text | None = Field(None, description="The name of the run; null leaves it as it is.")
    description: Text | None = Field(None, description="The same for its description.")
    labels: dict[Label, Text] = Field({}, description="Labels that change; others stay.")


@router.post("/{run_id}:annotate")
def annotate_run(body: Annotation, run_id: str, request: Request, principal: Principal) -> Json:
    """Put words to a run, whether it has ended or not; nothing else of it changes."""
    service = service_of(request)
    found = service.find(run_id)
    service.ledger.decide(
        found,
        lambda state, stamp: lifecycle.annotate(
            state, stamp, name=body.name, description=body.description, labels=body.labels
        ),
        principal=principal,
    )
    record = service.record(found)
    return Json({name: record[name] for name in ("runId", "name", "description", "labels")})
