"""Why a preparation or a training ends before its work is done.

EngineError
├── RefusalError   the inputs were read and will not be trained on: exit 65
└── StoppedError   somebody asked for the end: exit 143
"""


class EngineError(Exception):
    """The work does not come to its end."""


class RefusalError(EngineError):
    """The inputs are at fault; the message is a sentence for the person who wrote them."""


class StoppedError(EngineError):
    """The process was asked to stop, and did."""
