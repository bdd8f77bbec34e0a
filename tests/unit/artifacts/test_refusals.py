"""What cannot be a snapshot, or changes while it is copied, is refused in a sentence."""

import os
from pathlib import Path

import pytest

from engine.dispatch.artifacts import ArtifactStore
from tests.artifact_stores import (
    CHECKPOINT,
    RUN,
    contents,
    happening,
    refusal,
    saved,
    written,
)


def test_a_folder_that_is_missing_is_no_snapshot(store: ArtifactStore, tmp_path: Path) -> None:
    """C23: not every name is a checkpoint."""
    assert "not there" in refusal(store, tmp_path / "checkpoint-20")


def test_a_file_is_no_snapshot(store: ArtifactStore, tmp_path: Path) -> None:
    """C23: a snapshot is a folder."""
    written(tmp_path, {"checkpoint-20": b"weights"})

    assert refusal(store, tmp_path / "checkpoint-20") == "checkpoint-20 is no folder"


def test_a_folder_without_files_is_no_snapshot(store: ArtifactStore, tmp_path: Path) -> None:
    """C23: folders alone restore nothing."""
    (tmp_path / "checkpoint-20/trainingState").mkdir(parents=True)

    assert refusal(store, tmp_path / "checkpoint-20") == "the folder checkpoint-20 holds no files"


def test_a_kind_that_is_claimed_has_files(store: ArtifactStore, tmp_path: Path) -> None:
    """I9: a snapshot of weights has weights."""
    written(tmp_path / "checkpoint-20", {"trainingState/optimizer.safetensors": b"moments"})

    assert "no file of the weights" in refusal(store, tmp_path / "checkpoint-20")
    assert "nobody says" in refusal(store, tmp_path / "checkpoint-20", ())


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "../..", "missing", "link"])
def test_a_link_that_leads_elsewhere_is_refused(
    store: ArtifactStore, tmp_path: Path, target: str
) -> None:
    """U21: a worker cannot have the server's files copied for it."""
    written(tmp_path, {"outside": b"secret"})
    (written(tmp_path / "checkpoint-20") / "link").symlink_to(target)

    assert refusal(store, tmp_path / "checkpoint-20").startswith("link is a link")


def test_a_link_to_a_folder_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    """U21: a folder inside itself has no end."""
    (written(tmp_path / "checkpoint-20") / "link").symlink_to(".")

    assert refusal(store, tmp_path / "checkpoint-20").startswith("link is a link")


def test_a_link_to_a_file_of_the_same_folder_is_that_file(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """I9: what comes back are bytes, whatever shape they had."""
    (written(tmp_path / "one") / "latest").symlink_to("adapter_config.json")

    store.fetch(RUN, saved(store, tmp_path / "one").snapshot_id, tmp_path / "restore")

    assert contents(tmp_path / "restore") == CHECKPOINT | {"latest": b"{}"}
    assert not (tmp_path / "restore/latest").is_symlink()


def test_what_is_neither_file_nor_folder_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    """U21: nobody waits for the other end of a pipe."""
    os.mkfifo(written(tmp_path / "checkpoint-20") / "pipe")

    assert refusal(store, tmp_path / "checkpoint-20") == "pipe is neither a file nor a folder"


@pytest.mark.parametrize("name", [b"back\\slash", b"latin-\xe9"])
def test_a_name_that_not_every_disk_can_hold_is_refused(
    store: ArtifactStore, tmp_path: Path, name: bytes
) -> None:
    """U21: a name means the same on every disk."""
    with Path(os.fsdecode(os.fsencode(written(tmp_path / "one")) + b"/" + name)).open("w"):
        pass

    assert "is no name" in refusal(store, tmp_path / "one")


def test_a_file_that_changes_while_it_is_copied_is_refused(
    watched: ArtifactStore, tmp_path: Path
) -> None:
    """I9: a snapshot of two moments is none."""
    source = written(tmp_path / "checkpoint-20")

    def change(path: str) -> None:
        if path.endswith("adapter_model.safetensors"):
            written(source, {"adapter_model.safetensors": b"WEIGHTS" * 1000})

    with happening(before_write=change):
        reason = refusal(watched, source)

    assert reason == "adapter_model.safetensors was changed while it was copied"


@pytest.mark.parametrize("does_vanish", [True, False])
def test_a_file_that_comes_or_goes_while_others_are_copied_is_noticed(
    watched: ArtifactStore, tmp_path: Path, *, does_vanish: bool
) -> None:
    """I9: a worker that said too early that its files are complete is not believed."""
    source = written(tmp_path / "checkpoint-20")

    def change(_: str) -> None:
        if does_vanish:
            (source / "trainingState/rng/rank0.json").unlink(missing_ok=True)
        else:
            written(source, {"trainingState/late.json": b"{}"})

    with happening(before_write=change):
        reason = refusal(watched, source)

    assert ("rank0.json cannot be read" if does_vanish else "was changed while") in reason
