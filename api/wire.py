"""JSON as the outside sees it: camelCase names, and strings for numbers that are not finite."""

from functools import cache
from typing import Any

from pydantic.alias_generators import to_camel
from pydantic_core import to_json
from starlette.responses import Response

from ledger.events import (
    Event,
    Origin,
    Recorded,
    RunFailed,
    RunSubmitted,
    job_of,
)
from ledger.run import ENDS
from projections.wire import kind_of

NOT_TOLD = {
    "originator_id",
    "originator_version",
    "timestamp",
    "reported_at",
    "token_sha256",
    "rollouts",
}  # members that are told as others, that are nobody's business, or that are asked for apart


class Json(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of ``content``."""
        return dump(content)


def dump(value: Any) -> bytes:
    """``value`` as strict JSON."""
    return to_json(value, inf_nan_mode="strings", timedelta_mode="float")


def kind(event: Event) -> str:
    """The name of an event as streams say it, for example ``stepReported``."""
    return kind_of(type(event))


def tell(recorded: Recorded) -> dict[str, Any]:
    """An event as streams say it."""
    position, event = recorded
    told: dict[str, Any] = {
        "position": position,
        "runId": event.run_id,
        "kind": kind(event),
        "at": event.at,
    }
    job = job_of(event.originator_id)
    if job is not None:
        told[job.kind] = job.number
    told |= {
        to_camel_cached(name): value
        for name, value in event.model_dump(exclude=NOT_TOLD, exclude_none=True).items()
    }
    if isinstance(event, RunSubmitted) and event.origin is not None:
        told["origin"] = origin(event.origin)
    if type(event) in ENDS:
        told |= {"terminal": True, "phase": ENDS[type(event)]}
    if isinstance(event, RunFailed):
        told["failure"] = {
            "code": event.code,
            "class": event.end_class,
            "reason": event.reason,
            "advice": event.advice,
        }
    return told


def origin(source: Origin) -> dict[str, Any]:
    """What a branch begins from, as the outside sees it."""
    return {to_camel_cached(name): value for name, value in source}


@cache
def to_camel_cached(name: str) -> str:
    """The camelCase form of a field's name."""
    return to_camel(name)
