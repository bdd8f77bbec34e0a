"""The hub: wakes any number of streams when the ledger grows, with one thread for all of them."""

import asyncio
import threading
from contextlib import suppress

from ledger.ledger import Ledger

POLL_SECONDS = 0.5  # how late the thread notices that it should stop


class Hub:
    """Bridges the ledger's condition, which blocks, to the event loop, which must not."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stopped = threading.Event()
        self._grown: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to wake; called in the event loop."""
        loop = asyncio.get_running_loop()
        self._grown = asyncio.Event()
        self._thread = threading.Thread(target=self._watch, args=(loop,), name="hub", daemon=True)
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        """Whether streams should end now."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End every stream, so that the server can close; callable from a signal handler."""
        self._stopped.set()

    async def wait_beyond(self, position: int, timeout: float) -> bool:
        """Wait for an event after ``position``; False when ``timeout`` seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._ledger.position() <= position and not self.is_stopping:
                    assert self._grown is not None
                    await self._grown.wait()
        return self._ledger.position() > position

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        position = self._ledger.position()
        while not self._stopped.is_set():
            if self._ledger.wait_beyond(position, POLL_SECONDS):
                position = self._ledger.position()
                loop.call_soon_threadsafe(self._wake)
        with suppress(RuntimeError):  # the loop may be gone already
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """Release everyone who waits, and let the next ones wait on a new event."""
        assert self._grown is not None
        waiting, self._grown = self._grown, asyncio.Event()
        waiting.set()
