"""Answers that come in parts from a generator of ours, which holds files, processes or a lock."""

from collections.abc import Generator, Mapping

from anyio import CancelScope
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Parts(StreamingResponse):
    """Each part, made in a thread; what the generator holds is given back when its reader leaves.

    Nobody else would close it: it is held by the traceback of the answer that was broken off, and
    so until garbage is looked for, which a server does seldom.
    """

    def __init__(
        self,
        parts: Generator[bytes, None, None],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(parts, media_type=media_type, headers=headers)
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; then close the generator, wherever it stands."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await run_in_threadpool(self._parts.close)
