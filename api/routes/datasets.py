"""Data sets: what a run would say of their rows, and the catalogue of those that were taken in."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.access import Principal
from api.problems import ROWS_REFUSED, ProblemError
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.datasets import Dataset
from ledger.plan import Config, Label

router = APIRouter(prefix="/v1/datasets")


class Check(BaseModel):
    """Rows, and what they would be trained with."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    dataset: Label = Field(
        description="A file of rows, as the server finds it, or `dataset:` and a name or identity."
    )
    base_model: Label = Field(description="The base model, as a plan names it.")
    max_seq_length: int = Field(
        Config().max_seq_length,
        ge=1,
        lt=2**31,
        description="Tokens of one sequence, as in `config.maxSeqLength` of a plan.",
    )


class Creation(BaseModel):
    """Rows that are to be a data set."""

    model_config = ConfigDict(extra="forbid")

    file: Label = Field(description="A file of rows, as the server finds it.")
    name: str | None = Field(
        None,
        max_length=1_000,
        description="What it is called from now on, whatever was called so before.",
    )


@router.post(":check")
def check_dataset(body: Check, request: Request, _: Principal) -> Json:
    """Say whether a run would take the rows, and how they fit; no run is made."""
    service = service_of(request)
    question = service.datasets.pinned(body.model_dump(by_alias=True))
    return Json(service.checker.verdict(question))


@router.post("", status_code=201)
def create_dataset(body: Creation, request: Request, principal: Principal) -> Json:
    """Take the rows of a file into the catalogue; the same rows again are the same data set."""
    service = service_of(request)
    service.datasets.check_name(body.name)
    kept = service.checker.keep(body.file)
    if not kept["accepted"]:
        raise ProblemError(ROWS_REFUSED, kept["reason"])
    made = service.datasets.create(kept, name=body.name, principal=principal)
    answer = _told(service, made.dataset) | {"created": made.created, "movedFrom": made.moved_from}
    return Json(answer, 201 if made.created else 200)


@router.get("")
def list_datasets(request: Request, _: Principal) -> Json:
    """Every data set of the catalogue, oldest first, with the names that mean it now."""
    service = service_of(request)
    return Json({"datasets": [_told(service, each) for each in service.datasets.all()]})


@router.get("/{dataset}")
def get_dataset(dataset: str, request: Request, _: Principal) -> Json:
    """One data set, by a name, its identity or 8 digits of it, with every naming of it."""
    service = service_of(request)
    found = service.datasets.find(dataset)
    namings = [
        {"name": each.name, "at": each.at, "by": each.by}
        for each in service.datasets.namings(found.identity)
    ]
    return Json(_told(service, found) | {"namings": namings})


def _told(service: Service, dataset: Dataset) -> dict[str, Any]:
    return {
        "identity": dataset.identity,
        "names": service.datasets.names(dataset.identity),
        "form": dataset.form,
        "rows": dataset.rows,
        "sizeBytes": dataset.size_bytes,
        "createdAt": dataset.created_at,
        "createdBy": dataset.created_by,
    }
