"""What an event changes in a table beside the documents."""

from typing import Any, NamedTuple


class Change(NamedTuple):
    """A statement, and the values for its placeholders."""

    statement: str
    values: dict[str, Any]
