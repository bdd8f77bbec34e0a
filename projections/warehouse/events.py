"""Events as analysts read them: rows of the table event, for everything but updates.

An update is a row of the table metric, which has everything that its event says.
"""

from functools import cache
from typing import Any

import orjson
from pydantic.alias_generators import to_camel

from ledger.events import Event, RunSubmitted, UnknownEvent, attempt_of
from projections import wire
from projections.warehouse.clock import Tick

UNTOLD = {
    "originator_id",
    "originator_version",
    "timestamp",
    "reported_at",
    "principal",
    "token_sha256",
    "rollouts",
}  # members that have a column or a table, or that are nobody's business


def columns(event: Event, position: int, tick: Tick) -> tuple[Any, ...]:
    """The row of an event, in the order of the table."""
    is_known = not isinstance(event, UnknownEvent)
    is_of_run = event.originator_id.startswith("run/")
    return (
        position,
        event.originator_id,
        event.originator_version,
        event.topic if isinstance(event, UnknownEvent) else event.TOPIC,
        wire.kind_of(type(event)),
        event.run_id if is_of_run else None,
        _attempt(event) if is_of_run else None,
        event.at if is_known else None,
        None if tick.reached is None else wire.EPOCH + tick.reached * wire.MILLISECOND,
        tick.spent,
        event.principal if is_known else None,
        _payload(event),
    )


def _attempt(event: Event) -> int | None:
    """The attempt that said it, or that it is about."""
    own = attempt_of(event.originator_id)
    return own if own is not None else getattr(event, "attempt", None)


def _payload(event: Event) -> str:
    """The event's own members as JSON, under the names of docs/events.md."""
    if isinstance(event, UnknownEvent):
        return _text(event.payload)
    said = event.model_dump(exclude=UNTOLD, exclude_none=True)
    told = {_camel(name): value for name, value in said.items()}
    if isinstance(event, RunSubmitted) and event.origin is not None:
        told["origin"] = {_camel(name): value for name, value in event.origin}
    return orjson.dumps(wire.plain(told), option=orjson.OPT_UTC_Z).decode()


def _text(payload: bytes) -> str:
    """What a later version said, if it is JSON at all."""
    try:
        return orjson.dumps(orjson.loads(payload)).decode()
    except orjson.JSONDecodeError:
        return orjson.dumps(payload.decode(errors="replace")).decode()


_camel = cache(to_camel)
