"""Makers of artifact stores and of what they keep, and disks on which something happens."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from engine.dispatch.artifacts import ArtifactStore, Saved, SaveError
from ledger.events import Artifact

RUN = "00aa11bb22cc33dd"
BOTH: tuple[Artifact, ...] = ("weights", "trainingState")
FACTS: dict[str, Any] = {
    "attempt": 1,
    "step": 20,
    "epoch": 0.5,
    "writer": {"engine": "trl", "engineVersion": "1.16.0"},
}
CHECKPOINT = {
    "adapter_model.safetensors": b"weights" * 1000,
    "adapter_config.json": b"{}",
    "trainingState/optimizer.safetensors": b"moments" * 2000,
    "trainingState/rng/rank0.json": b"[1, 2, 3]",
}


Happening = Callable[[str], object]


def nothing(_: str) -> None:
    """What happens as a rule."""


class WatchedDisk(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A disk of this machine on which something may happen before a file is opened."""

    protocol = "watched"
    before_read: ClassVar[Happening] = staticmethod(nothing)
    before_write: ClassVar[Happening] = staticmethod(nothing)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        watch = type(self)
        (watch.before_write if mode == "wb" else watch.before_read)(path)
        return super()._open(path, mode, **options)


fsspec.register_implementation("watched", WatchedDisk, clobber=True)


class PowerLossError(BaseException):
    """The program is gone at this very point; nobody cleans up."""


@contextmanager
def happening(
    *, before_write: Happening = nothing, before_read: Happening = nothing
) -> Iterator[None]:
    """Let this happen with each file of a watched disk, which is given by its path."""
    WatchedDisk.before_write = staticmethod(before_write)
    WatchedDisk.before_read = staticmethod(before_read)
    try:
        yield
    finally:
        WatchedDisk.before_write = WatchedDisk.before_read = staticmethod(nothing)


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Have the system refuse to write a file any longer than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def no_room(path: str) -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def written(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    """A folder with these files, those of a usual checkpoint if none are given."""
    for name, content in (CHECKPOINT if files is None else files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def saved(
    store: ArtifactStore, folder: Path, artifacts: tuple[Artifact, ...] = BOTH, **facts: Any
) -> Saved:
    return store.save(RUN, folder, artifacts=artifacts, facts=FACTS | facts)


def weights_only(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: files[name] for name in files if not name.startswith("trainingState/")}


def refusal(store: ArtifactStore, folder: Path, artifacts: tuple[Artifact, ...] = BOTH) -> str:
    """Why the folder is refused; what is left of it in the store is nothing."""
    with pytest.raises(SaveError) as refused:
        saved(store, folder, artifacts)
    assert store.kept(RUN) == []
    return str(refused.value)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
