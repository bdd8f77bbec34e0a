"""Rows of the catalogue as they leave a home and come into another: a file for each data set."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from api.archive import BLOCK_BYTES, Member
from ledger import exchange, references
from ledger.datasets import Datasets
from ledger.errors import RefusedError

FOLDER = "datasets"  # of an archive
GONE = "its rows are not in the home any more"

Told = dict[str, Any]  # what a manifest says of one data set


class Rows:
    """The rows of the catalogue in a folder, each file named by its identity."""

    def __init__(self, datasets: Datasets, folder: Path) -> None:
        self._datasets = datasets
        self._folder = folder

    def members(self, told: list[Told]) -> Iterator[Member]:
        """The file of every data set, oldest first; ``told`` says what was sent of each."""
        for identity in [each.identity for each in self._datasets.all()]:
            path = self._folder / _name(identity)
            try:
                size, file = path.stat().st_size, path.open("rb")
            except FileNotFoundError:
                told.append({"identity": identity, "leftOut": GONE})
                continue
            said = {"identity": identity, "sizeBytes": size}
            yield Member(f"{FOLDER}/{path.name}", size, _sent(file, said, told))


def put(told: Iterable[Told], folder: Path, opened: Callable[[str], IO[bytes]]) -> int:
    """Put the rows that a manifest tells of into ``folder``; how many data sets there were.

    ``opened`` opens a file of the archive by its name.

    Raises:
        RefusedError: they are not what the manifest says; what is in ``folder`` already is.
        OSError: the disk does not take them.
    """
    sent = [each for each in told if "leftOut" not in each]
    for each in sent:
        name = _name(each["identity"])
        with opened(f"{FOLDER}/{name}") as source:
            _put(source, folder / name, each)
    return len(sent)


def _put(source: IO[bytes], target: Path, said: Told) -> None:
    """Write a file under another name, and give it its own once it is seen to be whole."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with NamedTemporaryFile(dir=target.parent, suffix=".partial", delete=False) as file:
        partial = Path(file.name)
        try:
            while block := source.read(BLOCK_BYTES):
                digest.update(block)
                size += len(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            if (size, digest.hexdigest()) != (said["sizeBytes"], said["sha256"]):
                raise RefusedError(
                    f"the rows of data set {said['identity']} are not what the manifest says: "
                    "something was removed, changed or cut off",
                    exchange.HINT,
                )
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def _sent(file: IO[bytes], said: Told, told: list[Told]) -> Iterator[bytes]:
    """The blocks of a file; it is told of once all of them were sent."""
    digest = hashlib.sha256()
    with file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            yield block
    told.append(said | {"sha256": digest.hexdigest()})


def _name(identity: str) -> str:
    """The name of its file; nothing else than an identity can lead anywhere else."""
    if references.IDENTITY.fullmatch(identity) is None:
        raise RefusedError(f"{identity!r} is no identity of a data set", exchange.HINT)
    return f"{identity}.jsonl"
