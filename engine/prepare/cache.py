"""The cache of tokenised rows: one Parquet file for each key, whose name has its own digest.

An entry is whole under its name or not there, and one that is no longer what was written is not
used. Two processes that write the same key write the same rows, so either's file will do. What is
known of each row stands in the file's own footer as JSON, where it is found without a library.
"""

import hashlib
import importlib.metadata
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import orjson

from engine.prepare import fit
from engine.prepare.base_model import Revision

if TYPE_CHECKING:
    from engine.prepare.tokens import TokenRows

PREPARATION = 1  # rises whenever the same rows would become other tokens or labels
LIBRARIES = ("transformers", "tokenizers", "jinja2")  # that render and tokenise
PARTIAL = ".partial"
BEGIN, END = b"<trainledger:facts>", b"</trainledger:facts>"  # around what is known of the rows
ABANDONED_SECONDS = 86_400.0  # after which a file that is not renamed belongs to nobody


def key(identity: str, base: Revision, *, max_seq_length: int) -> str:
    """The name of what the rows with this identity become; whatever changes that changes it."""
    said = {
        "rows": identity,
        "commit": base.commit,
        "tokenizer": base.tokenizer,
        "maxSeqLength": max_seq_length,
        "preparation": PREPARATION,
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
    }
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def get(folder: Path, key: str) -> "TokenRows | None":
    """The rows that were kept under ``key``; an entry that is damaged is removed."""
    content = _content(folder, key)
    return None if content is None else _read(content)


def facts(folder: Path, key: str) -> fit.Facts | None:
    """What is known of each of these rows; None where it has to be read from them, too."""
    content = _content(folder, key) or b""
    begin = content.rfind(BEGIN)
    if begin < 0:  # by an earlier version
        return None
    return fit.facts(content[begin + len(BEGIN) : content.index(END, begin)])


def _content(folder: Path, key: str) -> bytes | None:
    """The entry as it was written; a damaged one is removed."""
    for path in sorted(folder.glob(f"{key}-*.parquet")):
        try:
            content = path.read_bytes()
            if path.stem == f"{key}-{hashlib.sha256(content).hexdigest()}":
                return content
            path.unlink(missing_ok=True)
        except OSError:  # as good as absent: the rows are tokenised again
            continue
    return None


def _read(content: bytes) -> "TokenRows":
    """The rows of an entry, without the threads of the library's own pool.

    A process that ended soon after they had started was aborted in 3 of 36 cases (pyarrow 26.0.1,
    2 cores, measured 2026-11-29).
    """
    import pyarrow as pa  # noqa: PLC0415 - takes a tenth of a second, for tokens alone
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    from engine.prepare.tokens import TokenRows  # noqa: PLC0415 - as above

    table: Any = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    return TokenRows(table.replace_schema_metadata(None))


def put(folder: Path, key: str, rows: "TokenRows") -> None:
    """Keep the rows under ``key``.

    Raises:
        OSError: the disk did not take them; nothing is left.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    sink, known = pa.BufferOutputStream(), BEGIN + rows.facts().said() + END
    table = rows.table.replace_schema_metadata({"facts": known})
    pq.write_table(table, sink, compression="zstd")
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
