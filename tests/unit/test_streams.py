"""Answers in parts: what makes them ends when their reader leaves."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from api.streams import Parts

ASKED = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}}


class Made:
    """Three parts, and whether what they hold was given back."""

    def __init__(self) -> None:
        self.is_closed = False

    def parts(self) -> Generator[bytes, None, None]:
        try:
            yield from (b"a", b"b", b"c")
        finally:
            self.is_closed = True


def answered(made: Made, *, leaves_at: bytes | None = None) -> list[bytes]:
    """The parts that a client got, which leaves, and hinders what is sent, at one of them."""
    parts = made.parts()  # held here, as a traceback holds it
    got: list[bytes] = []

    async def answer() -> None:
        leaving = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await leaving.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if part := message.get("body"):
                got.append(part)
            if part and part == leaves_at:
                leaving.set()
                await asyncio.Event().wait()

        await Parts(parts, media_type="application/x-tar")(ASKED, receive, send)

    asyncio.run(answer())
    assert parts is not None
    return got


def test_every_part_comes_in_order() -> None:
    made = Made()

    assert answered(made) == [b"a", b"b", b"c"]
    assert made.is_closed


@pytest.mark.parametrize(("at", "got"), [(b"a", [b"a"]), (b"b", [b"a", b"b"])])
def test_a_reader_that_leaves_has_everything_given_back_at_once(
    at: bytes, got: list[bytes]
) -> None:
    """An archive that broke off would else keep its copy of the ledger on the disk."""
    made = Made()

    assert answered(made, leaves_at=at) == got
    assert made.is_closed
