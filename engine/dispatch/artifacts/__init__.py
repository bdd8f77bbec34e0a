"""The artifact store: keeps the files of committed snapshots, and notices when they change."""

from engine.dispatch.artifacts.errors import ArtifactError, DamagedError, SaveError, StoreError
from engine.dispatch.artifacts.manifest import Manifest, StoredFile
from engine.dispatch.artifacts.store import ArtifactStore, Saved

__all__ = [
    "ArtifactError",
    "ArtifactStore",
    "DamagedError",
    "Manifest",
    "SaveError",
    "Saved",
    "StoreError",
    "StoredFile",
]
