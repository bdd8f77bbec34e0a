"""Why this worker ends before its training does.

EngineError            the root, of ``engine.errors``
├── RefusalError       the inputs were read and will not be trained on: exit 65
├── StoppedError       somebody asked the worker to stop: exit 143
└── NothingLeftError   the snapshot to go on from is of the last update already
"""

from engine.errors import EngineError, RefusalError, StoppedError

__all__ = ["NothingLeftError", "RefusalError", "StoppedError"]


class NothingLeftError(EngineError):
    """Every update of the run was made by an earlier attempt."""
