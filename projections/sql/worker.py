"""A process that answers queries one by one, and that can be killed: ``projections.sql.worker``.

It gets each query over a socket together with an open file for the answer, says that it has begun,
and then what became of it. It ends when the socket does, when nothing was asked for a while, by its
own alarm when nobody stopped a query in time, and when a query has left it little memory: the next
one, which begins in a new process, has as much as any.
"""

import json
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

from projections import wire
from projections.errors import QueryRefusedError
from projections.sql import answers, faults, sandbox
from projections.sql.pool import Limits

IDLE_SECONDS = 60.0
ALARM_SECONDS = 5.0  # after the time that a query may take: our parent is gone
MARGIN_BYTES = 512 << 20  # beside what DuckDB counts itself: stacks, single values, Python's own
KEPT_BYTES = MARGIN_BYTES // 2  # that a process may hold for good of what its queries took
NICENESS = 10  # trainers and the server go first


class Copy:
    """The published copy, opened again whenever another one is in its place."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._opened: tuple[int, int] | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self.facts: dict[str, Any] = {}

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor into the newest copy.

        Raises:
            OSError: there is none.
            duckdb.Error: it cannot be opened.
        """
        found = self._path.stat()
        place = (found.st_ino, found.st_mtime_ns)
        if self._connection is None or place != self._opened:
            self._connect(found.st_mtime_ns // 1_000_000)
            self._opened = place
        assert self._connection is not None
        return self._connection.cursor()

    def _connect(self, published: int) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        limits = self._limits
        connection = sandbox.connect(
            self._path, memory_bytes=limits.memory_bytes, threads=limits.threads
        )
        ((position,),) = connection.execute(
            "SELECT coalesce(max(position), 0) FROM tracking"
        ).fetchall()
        self.facts = {"position": position, "publishedAt": wire.moment(published)}
        self._connection = connection


def main() -> None:
    """Answer until the socket, which is our standard input, ends."""
    path, *stated = json.loads(sys.argv[1])
    limits = Limits(*stated)
    _confine(limits)
    copy = Copy(Path(path), limits)
    most = _data_bytes() + KEPT_BYTES
    with socket.socket(fileno=0) as asker, suppress(ConnectionError):  # nobody listens any more
        asker.settimeout(IDLE_SECONDS)
        while (received := _receive(asker)) is not None:
            asked, file = received
            asker.sendall(b'{"begun":true}\n')
            said = _answer(copy, asked, limits, file)
            with suppress(OSError):  # what could not be written has been said
                file.close()
            asker.sendall(json.dumps(said).encode() + b"\n")
            if "limit" in said or _data_bytes() > most:
                return


def _confine(limits: Limits) -> None:
    """Take from this process what no query needs."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.answer_bytes, limits.answer_bytes))
    data = limits.memory_bytes + MARGIN_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def _data_bytes() -> int:
    """What this process holds of that which its limit is of, freed or not. Source: proc(5)."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[5]
    return int(pages) * resource.getpagesize()


def _receive(asker: socket.socket) -> tuple[dict[str, Any], BinaryIO] | None:
    """The next query and the file for its answer; None when there is no more to do."""
    try:
        text, descriptors, *_ = socket.recv_fds(asker, 1 << 16, 1)
        while not text.endswith(b"\n"):
            part = asker.recv(1 << 16) if text else b""
            if not part:
                return None
            text += part
    except TimeoutError:
        return None
    return json.loads(text), os.fdopen(descriptors[0], "wb")


def _answer(copy: Copy, asked: dict[str, Any], limits: Limits, file: BinaryIO) -> dict[str, Any]:
    """What became of a query: facts about its answer, or why there is none."""
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + ALARM_SECONDS)  # it ends this process
    try:
        return _written(copy, asked, file)
    except FileNotFoundError:
        return {"missing": True}
    except QueryRefusedError as error:
        return {"refused": str(error), "excerpt": ""}
    except (duckdb.Error, MemoryError, OSError, RuntimeError) as error:
        fault = faults.of(error)
        if fault.is_limit:
            return {"limit": fault.sentence}
        return {"refused": fault.sentence, "excerpt": fault.excerpt}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _written(copy: Copy, asked: dict[str, Any], file: BinaryIO) -> dict[str, Any]:
    with copy.cursor() as cursor:
        query, form, limit = asked["query"], asked["form"], asked["limit"]
        sandbox.check(query)
        is_cut = answers.write(cursor, query, file, form=form, limit=limit, facts=copy.facts)
    return copy.facts | {"isCut": is_cut}


if __name__ == "__main__":
    main()
