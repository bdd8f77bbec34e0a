"""What the ledger refuses, and why.

LedgerError
├── NotFoundError          no such run
│   └── NoTokenError       no such token
├── RefusedError           the rules say no
│   ├── PlanError          a plan that cannot be run
│   ├── EndedError         the run has ended
│   ├── TokenReusedError   a submission token that named another plan
│   ├── NameTakenError     a token of this name is in use
│   ├── FencedError        a report of an attempt that is closed
│   └── GapError           lines were left out, or said something else before
└── CorruptError           stored bytes that are not what was written
"""


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


class FencedError(RefusedError):
    """The attempt is closed: nothing that it says counts any more."""


class GapError(RefusedError):
    """Lines that do not follow what was taken; ``taken`` is the last line that was."""

    def __init__(self, message: str, taken: int) -> None:
        super().__init__(message, f"send again from line {taken + 1}")
        self.taken = taken


class CorruptError(LedgerError):
    """Stored bytes are not what was written."""
