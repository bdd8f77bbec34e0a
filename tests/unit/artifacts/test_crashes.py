"""A crash, a full disk or a store that is read-only leaves a whole snapshot or none."""

import os
import stat
from pathlib import Path

import pytest

from engine.dispatch.artifacts import ArtifactStore, DamagedError, SaveError, StoreError
from tests.artifact_stores import (
    CHECKPOINT,
    RUN,
    PowerLossError,
    contents,
    happening,
    largest_file,
    no_room,
    refusal,
    saved,
    written,
)


def test_a_disk_that_is_full_refuses_in_a_sentence_and_keeps_nothing(
    watched: ArtifactStore, tmp_path: Path
) -> None:
    """I9: what was copied until then gives its room back."""

    def fill(path: str) -> None:
        if path.endswith("rank0.json"):
            no_room(path)

    with happening(before_write=fill):
        reason = refusal(watched, written(tmp_path / "checkpoint-20"))

    assert reason == "the snapshot cannot be stored: there is no room on the disk"


def test_a_file_that_the_disk_does_not_take_is_refused_in_a_sentence(
    local: ArtifactStore, tmp_path: Path
) -> None:
    """I9: the limit of the system itself is met in the middle of a file."""
    source = written(tmp_path / "checkpoint-20")

    with largest_file(10_000):
        reason = refusal(local, source)

    assert reason == "the snapshot cannot be stored: a file is larger than the disk takes"
    assert saved(local, source).snapshot_id in local.kept(RUN)


def test_a_store_that_cannot_be_written_is_no_fault_of_the_files(
    watched: ArtifactStore, tmp_path: Path
) -> None:
    """S27: they may be saved later."""

    def refuse(path: str) -> None:
        raise TimeoutError(path)

    with happening(before_write=refuse), pytest.raises(StoreError, match=r"cannot be written$"):
        saved(watched, written(tmp_path / "one"))


@pytest.mark.parametrize("file", [*CHECKPOINT, "manifest.json"])
def test_a_save_that_a_crash_cut_short_is_none_until_it_is_done_again(
    watched: ArtifactStore, home: Path, tmp_path: Path, file: str
) -> None:
    """I9: interrupted uploads are never restorable, and saving again repairs them."""
    source = written(tmp_path / "checkpoint-20")
    expected = saved(ArtifactStore(f"file://{tmp_path}/elsewhere"), source)

    def crash(path: str) -> None:
        if path.endswith(file):
            Path(path).write_bytes(b"half")
            raise PowerLossError

    with happening(before_write=crash), pytest.raises(PowerLossError):
        saved(watched, source)
    assert watched.kept(RUN) == [expected.snapshot_id]
    with pytest.raises(DamagedError, match="manifest"):
        watched.fetch(RUN, expected.snapshot_id, tmp_path / "restore")

    again = saved(watched, source)

    assert again.snapshot_id == expected.snapshot_id
    watched.fetch(RUN, again.snapshot_id, tmp_path / "restore")
    assert contents(tmp_path / "restore") == CHECKPOINT
    assert contents(home / RUN / again.snapshot_id / "files") == CHECKPOINT


def test_saving_again_writes_only_what_is_missing_or_wrong(
    watched: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """I9: what is in the store already is left alone."""
    source = written(tmp_path / "checkpoint-20")
    folder = home / RUN / saved(watched, source).snapshot_id
    (folder / "manifest.json").unlink()
    (folder / "files/adapter_config.json").unlink()
    (folder / "files/trainingState/rng/rank0.json").write_bytes(b"[1, 2, 4]")
    opened: list[str] = []

    with happening(before_write=opened.append):
        saved(watched, source)

    names = [Path(path).name for path in opened]
    assert names == ["adapter_config.json", "rank0.json", "manifest.json"]


def test_a_repair_that_fails_leaves_a_whole_snapshot_alone(
    watched: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """C23: what may be committed already is not deleted on the way."""
    source = written(tmp_path / "checkpoint-20")
    snapshot = saved(watched, source).snapshot_id
    (home / RUN / snapshot / "files/adapter_config.json").unlink()

    with happening(before_write=no_room), pytest.raises(SaveError):
        saved(watched, source)

    watched.verify(RUN, snapshot, artifacts=["trainingState"])


def test_everything_is_on_the_disk_before_the_manifest_is(
    watched: ArtifactStore, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9: a loss of power leaves a whole snapshot or one without a manifest."""
    synced: list[str] = []
    manifests: list[set[str]] = []
    sync = os.fsync

    def watch(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        sync(handle)

    def note(path: str) -> None:
        if path.endswith("manifest.json"):
            manifests.append(set(synced))
            synced.clear()

    monkeypatch.setattr(os, "fsync", watch)
    with happening(before_write=note):
        snapshot = saved(watched, written(tmp_path / "checkpoint-20")).snapshot_id

    place = home / RUN / snapshot
    files = place / "files"
    folders = [files, files / "trainingState", files / "trainingState/rng"]
    needed = {str(path) for path in [*folders, *(files / name for name in CHECKPOINT)]}
    assert [needed <= before for before in manifests] == [True]
    assert synced == [str(path) for path in (place / "manifest.json", place, place.parent, home)]


def test_nobody_but_the_owner_reads_what_the_store_holds(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """U21: weights may hold what the rows held."""
    snapshot = saved(local, written(tmp_path / "one")).snapshot_id
    local.fetch(RUN, snapshot, tmp_path / "restore")

    for top in (home, tmp_path / "restore"):
        for path in [top, *top.rglob("*")]:
            expected = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == expected, path
