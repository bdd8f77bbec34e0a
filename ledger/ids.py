"""Ids by their beginnings: a few digits are enough, where no other id begins so."""

from collections.abc import Sequence

from ledger.errors import AmbiguousIdError

MIN_PREFIX = 4
CANDIDATES = 10  # that are named when a beginning is that of several ids
RUN_DIGITS = 16
SNAPSHOT_DIGITS = 64


def may_begin(prefix: str, digits: int) -> bool:
    """Whether an id of so many digits may begin with ``prefix``."""
    return MIN_PREFIX <= len(prefix) <= digits and not set(prefix) - set("0123456789abcdef")


def only(prefix: str, ids: Sequence[str], what: str) -> str | None:
    """The only one of ``ids``, all of which begin with ``prefix``; None where there is none.

    Raises:
        AmbiguousIdError: there are several; it names the first of them. ``what`` they are of.
    """
    if len(ids) > 1:
        raise AmbiguousIdError(
            f"{prefix} is how the ids of {len(ids)} {what} begin", ids[:CANDIDATES]
        )
    return ids[0] if ids else None
