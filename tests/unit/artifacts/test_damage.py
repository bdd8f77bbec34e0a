"""Damage is noticed and named, and a store that does not answer is no damage."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.dispatch.artifacts import ArtifactStore, DamagedError, StoreError
from tests.artifact_stores import (
    CHECKPOINT,
    RUN,
    contents,
    flip,
    happening,
    largest_file,
    saved,
    written,
)

DAMAGES: dict[str, Callable[[Path], None]] = {
    "was changed: its SHA-256 is": flip,
    "has 6999 bytes of the 7000 it had": lambda path: os.truncate(path, 6_999),
    "has 0 bytes of the 7000 it had": lambda path: os.truncate(path, 0),
    "has more than the 7000 bytes it had": lambda path: os.truncate(path, 7_001),
    "is missing": Path.unlink,
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_noticed_and_the_file_is_named(
    local: ArtifactStore, home: Path, tmp_path: Path, what: str
) -> None:
    """S27, C20: a damaged snapshot is never restored from, not even in part."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    DAMAGES[what](home / RUN / snapshot / "files/adapter_model.safetensors")

    with pytest.raises(DamagedError) as noticed:
        local.fetch(RUN, snapshot, tmp_path / "restore")

    where = f"adapter_model.safetensors of snapshot {snapshot[:12]} "
    assert str(noticed.value).startswith(where + what)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "snapshots"]
    with pytest.raises(DamagedError, match=what):
        local.verify(RUN, snapshot)
    local.verify(RUN, snapshot, artifacts=["trainingState"])


def test_a_random_state_that_is_missing_is_named(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """C20: never silently other streams of random numbers."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    (home / RUN / snapshot / "files/trainingState/rng/rank0.json").unlink()

    with pytest.raises(DamagedError, match=r"^trainingState/rng/rank0\.json of .* is missing$"):
        local.fetch(RUN, snapshot, tmp_path / "restore")


def test_a_file_that_is_exchanged_for_an_endless_one_is_not_read_to_its_end(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """S27: the private copy does not fill the disk."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    path = home / RUN / snapshot / "files/adapter_config.json"
    os.truncate(path, 1 << 40)

    with pytest.raises(DamagedError, match="has more than the 2 bytes"):
        local.fetch(RUN, snapshot, tmp_path / "restore")


@pytest.mark.parametrize("damage", [flip, Path.unlink, lambda path: os.truncate(path, 10)])
def test_a_manifest_that_is_not_the_one_that_was_saved_is_noticed(
    local: ArtifactStore, home: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """S27: the id says which manifest it is."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    damage(home / RUN / snapshot / "manifest.json")

    with pytest.raises(DamagedError, match=f"^the manifest of snapshot {snapshot[:12]} is "):
        local.manifest(RUN, snapshot)


def test_a_fetch_replaces_what_an_earlier_one_left(store: ArtifactStore, tmp_path: Path) -> None:
    """I9: an attempt begins from what was saved, whatever the one before did with its copy."""
    snapshot = saved(store, written(tmp_path / "one")).snapshot_id
    written(tmp_path / "restore", {"adapter_model.safetensors": b"old", "more": b"old"})
    written(tmp_path / "restore.partial", {"half": b"old"})

    store.fetch(RUN, snapshot, tmp_path / "restore")

    assert contents(tmp_path / "restore") == CHECKPOINT
    assert sorted(path.name for path in tmp_path.glob("restore*")) == ["restore"]


def test_a_copy_that_finds_no_room_says_nothing_about_the_snapshot(
    local: ArtifactStore, tmp_path: Path
) -> None:
    """S27: a full disk is no damage."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id

    with largest_file(5_000), pytest.raises(StoreError, match="cannot be copied: a file is larger"):
        local.fetch(RUN, snapshot, tmp_path / "restore")

    assert not list(tmp_path.glob("restore*"))


def test_a_store_that_is_not_mounted_is_no_damage(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """S27: its snapshots are as good as before once it is back."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    home.rename(tmp_path / "away")
    with pytest.raises(StoreError, match="not where it was"):
        local.verify(RUN, snapshot)

    (tmp_path / "away").rename(home)

    local.verify(RUN, snapshot)


def test_a_store_that_does_not_answer_is_no_damage(watched: ArtifactStore, tmp_path: Path) -> None:
    """S27: only what is known to be other than it was is damaged."""
    snapshot = saved(watched, written(tmp_path / "one")).snapshot_id

    def fail(path: str) -> None:
        if path.endswith("adapter_model.safetensors"):
            raise OSError(errno.EIO, "secret internals", path)

    with happening(before_read=fail), pytest.raises(StoreError) as failed:
        watched.verify(RUN, snapshot)

    where = f"adapter_model.safetensors of snapshot {snapshot[:12]}"
    assert str(failed.value) == f"{where} cannot be read: Input/output error"


def test_whatever_a_plugin_raises_the_sentence_is_ours(
    watched: ArtifactStore, tmp_path: Path
) -> None:
    """S27: a store that is away stops no other run, whichever library says so."""
    snapshot = saved(watched, written(tmp_path / "one")).snapshot_id

    def fail(path: str) -> None:
        raise LookupError(path)

    with happening(before_read=fail, before_write=fail):
        with pytest.raises(StoreError, match=r"^the artifact store cannot be read$"):
            watched.manifest(RUN, snapshot)
        with pytest.raises(StoreError, match=r"cannot be read$"):
            saved(watched, tmp_path / "one", step=40)
