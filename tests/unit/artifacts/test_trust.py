"""Manifests, ids, kinds and addresses that are not to be trusted."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.dispatch.artifacts import ArtifactStore, DamagedError, StoreError
from tests.artifact_stores import RUN, saved, written


def planted(home: Path, document: dict[str, Any]) -> str:
    """A snapshot whose manifest was made by hand, with its right digest for an id."""
    encoded = json.dumps(document).encode()
    snapshot = hashlib.sha256(encoded).hexdigest()
    written(home / RUN / snapshot, {"manifest.json": encoded, "files/a": b"a"})
    return snapshot


def document(name: str = "a", **changes: Any) -> dict[str, Any]:
    file = {"sha256": hashlib.sha256(b"a").hexdigest(), "sizeBytes": 1, "artifact": "weights"}
    whole = {"version": 1, "run": RUN, "facts": {}, "artifacts": ["weights"]}
    return whole | {"files": {name: file}} | changes


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../../x", "a/../../../x", "..", ".", "", "a//b", "a/", "..\\x", "a\0b"],
)
def test_a_manifest_cannot_lead_out_of_its_folder(
    local: ArtifactStore, home: Path, tmp_path: Path, name: str
) -> None:
    """U21: path traversal through names."""
    snapshot = planted(home, document(name))

    with pytest.raises(DamagedError, match="is no name of a file below a folder"):
        local.fetch(RUN, snapshot, tmp_path / "restore")

    assert not list(tmp_path.glob("restore*"))


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"run": "ffff"}, "is of run ffff, not of run 00aa11bb22cc33dd"),
        ({"files": {}}, "files: "),
        ({"artifacts": []}, "artifacts: "),
        ({"artifacts": ["trainingState"]}, "of a kind that the snapshot does not hold"),
        ({"more": 1}, "more: "),
    ],
)
def test_a_manifest_that_makes_no_sense_is_damaged(
    local: ArtifactStore, home: Path, changes: dict[str, Any], because: str
) -> None:
    """U21, C23: an id of another run, or of something that was never saved."""
    with pytest.raises(DamagedError, match=because):
        local.manifest(RUN, planted(home, document(**changes)))


def test_a_manifest_of_a_later_program_is_not_damaged(local: ArtifactStore, home: Path) -> None:
    """S27: a program that was set back leaves alone what it does not understand."""
    with pytest.raises(StoreError, match="has the version 2, 1 is understood"):
        local.manifest(RUN, planted(home, document(version=2)))


@pytest.mark.parametrize("run", ["", "..", "../other", "a/b", "AA", "/aa", "aa\n", "x" * 16])
def test_a_run_that_is_no_id_never_becomes_a_path(store: ArtifactStore, run: str) -> None:
    """U21: ids are validated."""
    with pytest.raises(ValueError, match="is no id"):
        store.kept(run)


@pytest.mark.parametrize("snapshot", ["", "..", "a" * 63, "a" * 65, "A" * 64, "a" * 64 + "\n"])
def test_a_snapshot_that_is_no_id_never_becomes_a_path(store: ArtifactStore, snapshot: str) -> None:
    """U21, C23: ids are validated; a prefix is none."""
    for ask in (store.manifest, store.verify, store.discard):
        with pytest.raises(ValueError, match="is no id"):
            ask(RUN, snapshot)


def test_a_kind_that_a_snapshot_does_not_hold_cannot_be_fetched(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """C20: nothing is not handed out for a training state."""
    snapshot = saved(store, written(tmp_path / "one"), ("weights",)).snapshot_id

    with pytest.raises(ValueError, match="holds weights, not trainingState"):
        store.fetch(RUN, snapshot, tmp_path / "restore", artifacts=["trainingState"])

    assert not list(tmp_path.glob("restore*"))


@pytest.mark.parametrize("url", ["nothing://x", "s3://bucket/x"])
def test_a_url_that_nothing_here_reads_is_refused_at_once(url: str) -> None:
    """U21: the sentence says what is missing."""
    with pytest.raises(StoreError, match=r"cannot be used: (Protocol not known|Install s3fs)"):
        ArtifactStore(url)
