"""What the worker made of a run's settings: hyperparameters, and the engine's configuration."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request

from api.access import Principal
from api.problems import ENGINE_CONFIG_NOT_FOUND, HPARAMS_NOT_FOUND, Problem, ProblemError
from api.routes.runs import Attempt
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.events import RunId
from ledger.run import TERMINAL
from projections.digest import config_sha256

router = APIRouter(prefix="/v1/runs")
Of = Annotated[
    Attempt | None,
    Query(alias="attempt", description="Of this attempt, not of the newest one that wrote them."),
]


class Part(NamedTuple):
    """A part of the settings that a worker writes."""

    name: str  # in the settings of the record
    words: str
    problem: Problem  # where there is none


HPARAMS = Part("hyperparameters", "hyperparameters", HPARAMS_NOT_FOUND)
ENGINE = Part("engineSettings", "engine configuration", ENGINE_CONFIG_NOT_FOUND)


@router.get("/{run_id}/hparams")
def read_hparams(run_id: str, request: Request, _: Principal, number: Of = None) -> Json:
    """The hyperparameters that a run is trained with, every default included."""
    service = service_of(request)
    found = service.find(run_id)
    attempt, said = _written(service, found, number, HPARAMS)
    digest = config_sha256(service.ledger.run(found).plan)
    return Json({"runId": found, "attempt": attempt, "configHash": digest, "hyperparameters": said})


@router.get("/{run_id}/engine-config")
def read_engine_config(run_id: str, request: Request, _: Principal, number: Of = None) -> Json:
    """What the engine was asked for, and its whole configuration with all that it filled in."""
    service = service_of(request)
    found = service.find(run_id)
    attempt, said = _written(service, found, number, ENGINE)
    return Json({"runId": found, "attempt": attempt, **said})


def _written(
    service: Service, run_id: RunId, number: int | None, part: Part
) -> tuple[int, dict[str, Any]]:
    """What an attempt wrote; without a number, what the newest did that wrote anything.

    Raises:
        ProblemError: nothing was written, or not yet.
    """
    record = service.record(run_id, attempt=number)
    attempts = [each["attempt"] for each in record["attempts"]]
    for each in [number] if number else reversed(attempts):
        said = service.record(run_id, attempt=each)["settings"][part.name]
        if said is not None:
            return each, said
    raise ProblemError(part.problem, _absence(service, run_id, number, part))


def _absence(service: Service, run_id: RunId, number: int | None, part: Part) -> str:
    """Why there is nothing, and when there may be."""
    state = service.ledger.run(run_id)
    whose = f"run {run_id}" if number is None else f"attempt {number} of run {run_id}"
    newest = state.attempt.number if state.attempt else None
    if state.phase in TERMINAL or number not in (None, newest):
        return f"{whose} has no {part.words}: its worker ended before it wrote any"
    return (
        f"{whose} has no {part.words} yet, and is {state.phase}: its worker writes them shortly "
        "after its job has started, before the first step"
    )
