"""Names that people give to what has an id as well: tokens, data sets."""

import re
from collections.abc import Callable

from ledger.errors import LedgerError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check(name: str, thing: str, *, is_id: Callable[[str], object], ids: str) -> None:
    """Refuse what cannot be a name of ``thing``.

    Args:
        name: what it is to be called.
        thing: a token, a data set.
        is_id: whether a word may be taken for an id of such a thing; no name may.
        ids: what these look like, in words.

    Raises:
        LedgerError: it cannot.
    """
    if not NAME.fullmatch(name) or is_id(name):
        raise LedgerError(
            f"{name[:80]!r} cannot be the name of {thing}",
            "a name has 1 to 100 letters, digits, dots, dashes and underscores, begins with a "
            f"letter or a digit, and is not what {ids}",
        )
