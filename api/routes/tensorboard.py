"""TensorBoard event files of a run, as a tar archive: all of them, or what is new."""

from collections.abc import Callable, Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from api.access import Principal
from api.archive import TAR, Member, pack
from api.problems import TENSORBOARD_MISSING, ProblemError
from api.routes.events import NO_BUFFERING
from api.routes.runs import Attempt, Position
from api.routes.service import service_of
from api.service import Service, utc_now
from projections.tensorboard import Page
from projections.tensorboard.fold import Summary

router = APIRouter(prefix="/v1/runs")

POSITION = "Trainledger-Position"  # what the next call says as `after`
OVER = "Trainledger-Over"  # whether that call would find nothing more


@router.get("/{run_id}/tensorboard")
def read_event_files(
    run_id: str,
    request: Request,
    _: Principal,
    after: Annotated[
        Position,
        Query(description="Only what is new since the answer whose `Trainledger-Position` it is."),
    ] = 0,
    attempt: Annotated[
        Attempt | None,
        Query(description="Only what this attempt reported, whatever later ones took back."),
    ] = None,
) -> StreamingResponse:
    """TensorBoard event files of a run as of now; each answer's files come after those before."""
    service = service_of(request)
    found = service.find(run_id)
    if attempt is not None:
        service.attempt(found, attempt)
    write = _writer()
    is_over = _is_over(service, found, attempt)  # before the position: its end is told below
    upto = max(after, service.ledger.position())
    pages = service.curves.pages(found, attempt=attempt, after=after, upto=upto)
    folder = found if attempt is None else f"{found}/a{attempt}"
    return StreamingResponse(
        pack(_members(pages, write, folder), changed=int(utc_now().timestamp())),
        media_type=TAR,
        headers=NO_BUFFERING | {POSITION: str(upto), OVER: str(is_over).lower()},
    )


def _writer() -> Callable[[list[Summary]], bytes]:
    """What makes event files, which not every server can do.

    Raises:
        ProblemError: the package is not installed.
    """
    try:
        from projections.tensorboard.records import event_file  # noqa: PLC0415 (1 s, and optional)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "tensorboard":
            raise ProblemError(
                TENSORBOARD_MISSING, "the package tensorboard is not installed beside the server"
            ) from None
        raise
    return event_file


def _is_over(service: Service, run_id: str, attempt: int | None) -> bool:
    state = service.ledger.run(run_id)
    if attempt is None:
        return state.has_ended
    return state.open_attempt is None or state.open_attempt.number != attempt


def _members(
    pages: Iterator[Page], write: Callable[[list[Summary]], bytes], folder: str
) -> Iterator[Member]:
    """An event file for each page; a reader takes them in the order of their names."""
    for position, summaries in pages:
        name = f"{folder}/events.out.tfevents.{position:019d}"
        yield Member.text(name, write(summaries))
