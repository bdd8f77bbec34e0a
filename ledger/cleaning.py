"""Events without secrets: what of each kind is looked through before it is stored."""

from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from ledger.events import Event
from ledger.masking import address, masked

_OURS = frozenset({*Event.model_fields, "heads"})  # what nobody types
_ADDRESSES = frozenset({"path", "uri"})  # of files that are opened: a folder may be called a=b

EventT = TypeVar("EventT", bound=Event)


def cleaned(event: EventT) -> EventT:
    """The event without secrets; cleaning it again changes nothing."""
    changes: dict[str, Any] = {}
    for name in _texts(type(event)):
        said = getattr(event, name)
        clean = address(said) if name in _ADDRESSES else masked(said)
        if clean != said:
            changes[name] = clean
    return event.model_copy(update=changes) if changes else event


@cache
def _texts(kind: type[Event]) -> tuple[str, ...]:
    """The members of an event that may hold text, so that numbers of updates cost nothing."""
    return tuple(
        name
        for name, field in kind.model_fields.items()
        if name not in _OURS and _may_hold_text(field.annotation)
    )


def _may_hold_text(annotation: Any) -> bool:
    if annotation in (str, Any):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return _may_hold_text(arguments[1])
    if origin is Annotated:
        return _may_hold_text(arguments[0])
    if origin in (Union, UnionType, tuple, list):
        return any(map(_may_hold_text, arguments))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(_may_hold_text(field.annotation) for field in annotation.model_fields.values())
    return False
