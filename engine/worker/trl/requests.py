"""What this worker is asked for: by the control file, or by SIGTERM from anybody."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Literal

from engine.client import Reporter

Request = Literal["stop", "pause", "end"]
"""stop: end now. pause: save the newest update, then end. end: the same, even if saving fails."""

Requests = Callable[[], Request | None]


class Asked:
    """The newest request; cheap enough for every update."""

    def __init__(self, reporter: Reporter) -> None:
        """Take SIGTERM from here on."""
        self._reporter = reporter
        self._is_signalled = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def __call__(self) -> Request | None:
        """What is asked for now; a stop goes before a signal, since it needs no saving."""
        request = self._reporter.request()
        return "end" if self._is_signalled and request != "stop" else request

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_signalled = True
