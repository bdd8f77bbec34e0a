"""How a plan names a data set of the catalogue, where it does not name a file.

``dataset:NAME`` is what the name means at submission, ``dataset:DIGITS`` the data set whose
identity begins so. What a run keeps is ``dataset:NAME@IDENTITY`` or ``dataset:IDENTITY``, which
means the same rows for ever, wherever the name is moved.
"""

import re
from typing import NamedTuple

MARK = "dataset:"
IDENTITY = re.compile(r"[0-9a-f]{64}")  # SHA-256 over the parsed rows
FEW_DIGITS = 8  # fewer are no beginning of an identity


class Reference(NamedTuple):
    """A name, an identity or a beginning of it, or both."""

    name: str | None
    identity: str | None

    def __str__(self) -> str:
        """As a plan has it."""
        return MARK + "@".join(filter(None, self))


def parse(text: str) -> Reference | None:
    """The data set that ``text`` names; None: it names a file, or is a mere label."""
    if not text.startswith(MARK):
        return None
    name, at, identity = text.removeprefix(MARK).rpartition("@")
    if at:
        return Reference(name, identity)
    return Reference(None, identity) if is_beginning(identity) else Reference(identity, None)


def is_beginning(text: str) -> bool:
    """Whether ``text`` looks like an identity or the beginning of one."""
    return len(text) >= FEW_DIGITS and IDENTITY.fullmatch(text.ljust(64, "0")) is not None


def same_rows(text: str) -> str:
    """``text`` without the name, where it is pinned: equal for whatever is the same data set."""
    reference = parse(text)
    if reference is None or reference.identity is None:
        return text
    return str(reference._replace(name=None))
