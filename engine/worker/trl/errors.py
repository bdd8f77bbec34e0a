"""Why this worker ends before its training does.

WorkerError
├── RefusalError    the inputs were read and will not be trained on: exit 65
└── StoppedError    somebody asked the worker to stop: exit 143
"""


class WorkerError(Exception):
    """The training does not come to its end."""


class RefusalError(WorkerError):
    """The inputs are at fault; the message is a sentence for the person who wrote them."""


class StoppedError(WorkerError):
    """The worker was asked to stop, and did."""
