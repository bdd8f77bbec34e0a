"""Snapshots are given up whole or by kind, and nothing else goes with them."""

from pathlib import Path

import pytest

from engine.dispatch.artifacts import ArtifactStore, DamagedError
from tests.artifact_stores import (
    BOTH,
    CHECKPOINT,
    RUN,
    PowerLossError,
    contents,
    flip,
    happening,
    saved,
    weights_only,
    written,
)


def test_one_kind_is_given_up_and_the_other_stays(store: ArtifactStore, tmp_path: Path) -> None:
    """C23, I9: what is left can still be fetched, what is gone is missed."""
    snapshot = saved(store, written(tmp_path / "one")).snapshot_id

    freed = [store.remove(RUN, snapshot, ["trainingState"]) for _ in range(2)]

    assert freed == [14_009, 0]
    store.fetch(RUN, snapshot, tmp_path / "restore", artifacts=["weights"])
    assert contents(tmp_path / "restore") == weights_only(CHECKPOINT)
    with pytest.raises(DamagedError, match="is missing"):
        store.fetch(RUN, snapshot, tmp_path / "restore")


def test_nothing_stays_when_the_last_kind_is_given_up(store: ArtifactStore, tmp_path: Path) -> None:
    """I9: the manifest goes last."""
    snapshot = saved(store, written(tmp_path / "one")).snapshot_id

    freed = [store.remove(RUN, snapshot, [kind]) for kind in ("weights", "trainingState")]

    assert (freed, store.kept(RUN)) == ([7_002, 14_009], [])
    assert store.remove(RUN, snapshot, BOTH) == 0


def test_everything_can_be_given_up_at_once(store: ArtifactStore, tmp_path: Path) -> None:
    """I9: and other snapshots are not touched."""
    snapshot = saved(store, written(tmp_path / "one")).snapshot_id
    other = saved(store, tmp_path / "one", step=40).snapshot_id

    assert (store.remove(RUN, snapshot, BOTH), store.kept(RUN)) == (21_011, [other])

    store.verify(RUN, other)


def test_a_training_state_within_the_weights_goes_with_them(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """I8: bytes that two kinds share are there until the weights are given up."""
    snapshot = saved(store, written(tmp_path / "one", {"all.bin": b"everything"})).snapshot_id

    assert store.remove(RUN, snapshot, ["trainingState"]) == 0
    store.verify(RUN, snapshot)

    assert (store.remove(RUN, snapshot, ["weights"]), store.kept(RUN)) == (10, [])


def test_giving_up_goes_on_after_a_crash(local: ArtifactStore, home: Path, tmp_path: Path) -> None:
    """I9: what is gone already is no reason to stop."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    (home / RUN / snapshot / "files/adapter_model.safetensors").unlink()

    assert local.remove(RUN, snapshot, ["weights"]) == 2
    (home / RUN / snapshot / "files/trainingState/rng/rank0.json").unlink()
    assert local.remove(RUN, snapshot, ["trainingState"]) == 14_000
    (home / RUN / snapshot / "files").mkdir(parents=True)
    assert local.remove(RUN, snapshot, ["trainingState"]) == 0

    assert local.kept(RUN) == []


def test_nothing_is_deleted_where_the_manifest_cannot_tell_what_it_is(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """S27: intact weights survive a damaged manifest until somebody gives up all of it."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    flip(home / RUN / snapshot / "manifest.json")

    with pytest.raises(DamagedError):
        local.remove(RUN, snapshot, ["trainingState"])

    assert contents(home / RUN / snapshot / "files") == CHECKPOINT
    assert local.discard(RUN, snapshot) > 21_011
    assert local.kept(RUN) == []


def test_a_folder_that_nothing_refers_to_is_found_and_discarded(
    watched: ArtifactStore, tmp_path: Path
) -> None:
    """I9: what an interrupted save left is no snapshot, and takes no room for ever."""

    def crash(path: str) -> None:
        if path.endswith("optimizer.safetensors"):
            raise PowerLossError

    with happening(before_write=crash), pytest.raises(PowerLossError):
        saved(watched, written(tmp_path / "one"))
    [left] = watched.kept(RUN)

    assert (watched.discard(RUN, left), watched.kept(RUN)) == (7_002, [])
    assert watched.discard(RUN, left) == 0


def test_deleting_follows_no_links(local: ArtifactStore, home: Path, tmp_path: Path) -> None:
    """U21: a link that somebody put into the store costs nobody their files."""
    written(tmp_path / "precious", {"file": b"mine"})
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    (home / RUN / snapshot / "files/link").symlink_to(tmp_path / "precious")

    local.discard(RUN, snapshot)

    assert contents(tmp_path / "precious") == {"file": b"mine"}


def test_only_ids_count_as_snapshots_that_are_kept(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """C23: not any folder with a number for a name is trusted."""
    assert local.kept(RUN) == []
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    written(home / RUN, {"checkpoint-20/x": b"", "20/x": b"", "lost+found/x": b""})

    assert local.kept(RUN) == [snapshot]
