"""The cache of tokenised rows: one Parquet file for each key, whose name has its own digest.

An entry is whole under its name or not there, and one that is no longer what was written is not
used. Two processes that write the same key write the same rows, so either's file will do.
"""

import hashlib
import importlib.metadata
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from engine.prepare.base_model import Revision
from engine.prepare.rows import ChatRows
from engine.prepare.tokens import TokenRows

PREPARATION = 1  # rises whenever the same rows would become other tokens or labels
LIBRARIES = ("transformers", "tokenizers", "jinja2")  # that render and tokenise
PARTIAL = ".partial"
ABANDONED_SECONDS = 86_400.0  # after which a file that is not renamed belongs to nobody


def key(rows: ChatRows, base: Revision, *, max_seq_length: int) -> str:
    """The name of what these rows become; whatever changes that changes the name."""
    said = {
        "rows": rows.identity(),
        "commit": base.commit,
        "tokenizer": base.tokenizer,
        "maxSeqLength": max_seq_length,
        "preparation": PREPARATION,
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
    }
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def get(folder: Path, key: str) -> TokenRows | None:
    """The rows that were kept under ``key``; an entry that is damaged is removed."""
    for path in sorted(folder.glob(f"{key}-*.parquet")):
        try:
            content = path.read_bytes()
            if path.stem == f"{key}-{hashlib.sha256(content).hexdigest()}":
                return TokenRows(_read(content))
            path.unlink(missing_ok=True)
        except OSError:  # as good as absent: the rows are tokenised again
            continue
    return None


def _read(content: bytes) -> Any:
    """The table, without the threads of the library's own pool.

    A process that ended soon after they had started was aborted in 3 of 36 cases (pyarrow 26.0.1,
    2 cores, measured 2026-11-29).
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def put(folder: Path, key: str, rows: TokenRows) -> None:
    """Keep the rows under ``key``.

    Raises:
        OSError: the disk did not take them; nothing is left.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(rows.table, sink, compression="zstd")
    content = memoryview(sink.getvalue())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{key}-{hashlib.sha256(content).hexdigest()}.parquet"
    _write(folder, name, content)


def _write(folder: Path, name: str, content: memoryview) -> None:
    """Write the file under a name of its own, and give it ``name`` once the disk has it."""
    with NamedTemporaryFile(dir=folder, suffix=PARTIAL, delete=False) as file:
        partial = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(folder / name)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    _sync(folder)
    _remove_abandoned(folder, now=(folder / name).stat().st_mtime)


def _remove_abandoned(folder: Path, *, now: float) -> None:
    """Remove what processes left that were killed while they wrote."""
    for path in folder.glob(f"*{PARTIAL}"):
        try:
            if now - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()
        except FileNotFoundError:
            continue


def _sync(folder: Path) -> None:
    """Wait until the disk has the folder's list of names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
