"""What the ledger refuses, and why.

LedgerError
├── NotFoundError          no such run
│   ├── NoTokenError       no such token
│   ├── NoDatasetError     no such data set
│   └── NoSnapshotError    no such snapshot
├── RefusedError           the rules say no
│   ├── PlanError          a plan that cannot be run
│   ├── EndedError         the run has ended
│   ├── TokenReusedError   a submission token that named another plan
│   ├── NameTakenError     a token of this name is in use
│   ├── AmbiguousIdError   several ids begin so
│   ├── FencedError        a report of an attempt that is closed
│   └── GapError           lines were left out, or said something else before
└── CorruptError           stored bytes that are not what was written
"""

from collections.abc import Sequence


class LedgerError(Exception):
    """The root of what the ledger raises; ``hint`` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NotFoundError(LedgerError):
    """Nothing has this id."""

    HINT = "trainledger runs list shows the runs there are"


class NoTokenError(NotFoundError):
    """No token has this name or id."""

    HINT = "trainledger tokens list shows the tokens there are"


class NoDatasetError(NotFoundError):
    """No data set has this name or identity."""

    HINT = "trainledger datasets list shows the data sets there are"


class NoSnapshotError(NotFoundError):
    """No committed snapshot has this id."""

    HINT = "trainledger runs snapshots RUN shows those of a run"


class RefusedError(LedgerError):
    """The rules of the run do not allow it now."""


class PlanError(RefusedError):
    """A plan that cannot be run; ``faults`` holds one sentence for each field."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults), "correct the plan and submit it again")
        self.faults = faults


class EndedError(RefusedError):
    """The run has ended, and what has ended never changes."""


class TokenReusedError(RefusedError):
    """The submission token created a run from another plan."""


class NameTakenError(RefusedError):
    """A token of this name is in use."""


class AmbiguousIdError(RefusedError):
    """Several ids begin so; ``candidates`` are the first of them."""

    def __init__(self, message: str, candidates: Sequence[str]) -> None:
        super().__init__(message, "write more of the id")
        self.candidates = list(candidates)


class FencedError(RefusedError):
    """The attempt is closed: nothing that it says counts any more."""


class GapError(RefusedError):
    """Lines that do not follow what was taken; ``taken`` is the last line that was."""

    def __init__(self, message: str, taken: int) -> None:
        super().__init__(message, f"send again from line {taken + 1}")
        self.taken = taken


class CorruptError(LedgerError):
    """Stored bytes are not what was written."""
