"""Stores on each kind of disk."""

import uuid
from pathlib import Path

import pytest

from engine.dispatch.artifacts import ArtifactStore


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the store's folders are."""
    return tmp_path / "snapshots"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, home: Path) -> ArtifactStore:
    """A store on each kind of disk."""
    urls = {"file": f"file://{home}", "memory": f"memory://{uuid.uuid4().hex}"}
    return ArtifactStore(urls[request.param])


@pytest.fixture
def local(home: Path) -> ArtifactStore:
    """A store on the disk, whose files can be damaged by hand."""
    return ArtifactStore(f"file://{home}")


@pytest.fixture
def watched(home: Path) -> ArtifactStore:
    """A store on a disk that can fail."""
    return ArtifactStore(f"watched://{home}")
