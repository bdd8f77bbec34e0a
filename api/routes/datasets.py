"""Data sets: what a run would say of their rows."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.access import Principal
from api.routes.service import service_of
from api.wire import Json
from ledger.plan import Config, Label

router = APIRouter(prefix="/v1/datasets")


class Check(BaseModel):
    """Rows, and what they would be trained with."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    dataset: Label = Field(description="A file of rows, as the server finds it.")
    base_model: Label = Field(description="The base model, as a plan names it.")
    max_seq_length: int = Field(
        Config().max_seq_length,
        ge=1,
        lt=2**31,
        description="Tokens of one sequence, as in `config.maxSeqLength` of a plan.",
    )


@router.post(":check")
def check_dataset(body: Check, request: Request, _: Principal) -> Json:
    """Say whether a run would take the rows, and how they fit; no run is made."""
    question = body.model_dump(by_alias=True)
    return Json(service_of(request).checker.verdict(question))
