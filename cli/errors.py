"""What can end a command early, and the exit code that it ends with.

CommandError            one sentence for people, a hint, and an exit code
└── PassingError        the same request may succeed a moment later
ClosedPipeError         nobody reads what we write any more
"""

from enum import IntEnum


class Exit(IntEnum):
    """The published exit codes; ``docs/exit-codes.md`` explains them."""

    OK = 0
    RUN_FAILED = 1  # also: a pause failed, an audit or a check found a fault
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    TIMED_OUT = 124
    INTERRUPTED = 130
    CLOSED_PIPE = 141


EXIT_CODES = {
    Exit.OK: "done",
    Exit.RUN_FAILED: "not completed, or differs (--exit-status); pause, audit or check failed",
    Exit.USAGE: "the command was used wrongly",
    Exit.NOT_FOUND: "what was asked for does not exist",
    Exit.REFUSED: "the service refused, or is not ready",
    Exit.UNREACHABLE: "the service could not be reached",
    Exit.TIMED_OUT: "the time that --timeout gave was over; the run goes on",
    Exit.INTERRUPTED: "Ctrl-C; the run goes on",
    Exit.CLOSED_PIPE: "the reader of the output went away",
}


class CommandError(Exception):
    """One sentence about what went wrong, with what to do about it."""

    def __init__(self, message: str, code: Exit, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint


class PassingError(CommandError):
    """The service did not answer, its answer was lost, or it said that it cannot answer yet.

    ``sent``: the request may have reached the service.
    """

    def __init__(
        self,
        message: str,
        code: Exit = Exit.UNREACHABLE,
        *,
        hint: str | None = None,
        sent: bool = False,
    ) -> None:
        super().__init__(message, code, hint=hint)
        self.sent = sent


class ClosedPipeError(Exception):
    """Whoever read our output has stopped reading."""
