"""Tokenising: rendered chats as tokens and labels, with as many processes as pay.

The template writes the start token itself, so tokenising adds none. The rows come back in their
order, whatever the number of processes.
"""

import copy
import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from engine.prepare.chat import ChatRow
from engine.prepare.faults import Fault
from engine.prepare.prepared import IGNORED, start_fault
from engine.prepare.rendering import Rendered, Renderer
from engine.prepare.tokens import Cut, batch, cut

CHUNK = 256  # rows that one process takes at once
# Below this a second process costs more than it saves (2 cores, measured 2026-11-29).
WORTH = 1_000_000  # characters

_PR_SET_PDEATHSIG = 1


class Chunk(NamedTuple):
    """Rows that follow one another, as a record batch; faults by their place in it, from 0."""

    batch: Any
    faults: dict[int, Fault]


Step = Callable[[Sequence[ChatRow]], Chunk]


class Tokenizing:
    """Turns rows into tokens; it remembers how the template renders."""

    def __init__(self, tokenizer: Any, max_seq_length: int) -> None:
        self._renderer = Renderer(tokenizer)
        self._backend = _uncut(tokenizer.backend_tokenizer)
        self._start = tokenizer.bos_token_id
        self._length = max_seq_length

    def __call__(self, rows: Sequence[ChatRow]) -> Chunk:
        """These rows as tokens; a row at fault is empty."""
        rendered = self._renderer.render(rows)
        texts = [each.text for each in rendered if isinstance(each, Rendered)]
        encodings = iter(self._backend.encode_batch(texts, add_special_tokens=False))
        faults, cuts = {}, []
        for place, each in enumerate(rendered):
            found = each if isinstance(each, Fault) else self._labelled(next(encodings), each)
            if isinstance(found, Fault):
                faults[place] = found
                found = Cut(np.empty(0, np.int32), np.empty(0, np.int32), 0, lost_end=False)
            cuts.append(found)
        return Chunk(batch(cuts), faults)

    def _labelled(self, encoding: Any, rendered: Rendered) -> Cut | Fault:
        """Tokens of a text, those inside its spans as targets."""
        input_ids = np.array(encoding.ids, np.int32)
        if fault := start_fault(input_ids, self._start, "its text as tokens"):
            return fault
        labels = np.full(len(input_ids), IGNORED, np.int32)
        for start, end in rendered.spans:
            inside = _inside(encoding, start, end)
            labels[inside] = input_ids[inside]
        return cut(input_ids, labels, self._length)


def _uncut(backend: Any) -> Any:
    """The tokenizer without what its file says of cutting and padding; that is kept for others."""
    if backend.truncation is None and backend.padding is None:
        return backend
    backend = copy.deepcopy(backend)
    backend.no_truncation()
    backend.no_padding()
    return backend


def _inside(encoding: Any, start: int, end: int) -> Any:
    """Which tokens are of the characters from ``start`` to ``end``, and of no others."""
    first, after = encoding.char_to_token(start), encoding.char_to_token(end)
    if after is None and len(encoding) and encoding.token_to_chars(len(encoding) - 1)[1] <= end:
        after = len(encoding)  # the answer is the end of the text
    if first is None or after is None:
        return _inside_by_offsets(encoding, start, end)
    if encoding.token_to_chars(first)[0] < start:  # it begins before
        first += 1
    return slice(first, after)


def _inside_by_offsets(encoding: Any, start: int, end: int) -> Any:
    """The same where a character is in no token."""
    first, last = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    return (start <= first) & (start < last) & (last <= end)


def tokenize(rows: Sequence[ChatRow], step: Step, *, processes: int) -> Iterator[Chunk]:
    """Every chunk of the rows in order, as ``step`` makes them."""
    chunks = [rows[at : at + CHUNK] for at in range(0, len(rows), CHUNK)]
    if processes == 1:
        yield from map(step, chunks)
        return
    with _pool(step, processes) as pool:
        yield from pool.map(_run, chunks)


def processes_for(rows: Sequence[ChatRow]) -> int:
    """As many as there are cores, where the work is worth it."""
    size = 0
    for row in rows:
        size += sum(len(message["content"]) for message in row.messages)
        if size > WORTH:
            return len(os.sched_getaffinity(0))
    return 1


@contextmanager
def _pool(step: Step, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that begin where this one is: none of them loads a library again."""
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(step, os.getpid()),
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_steps: list[Step] = []  # of a process of the pool: the one step that it makes


def _begin(step: Step, parent: int) -> None:
    """Make a forked process one that only works: it ends with its parent, and by nothing else."""
    gc.freeze()  # what is there stays; looking through it would copy it
    _steps.append(step)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _run(rows: Sequence[ChatRow]) -> Chunk:
    return _steps[0](rows)
