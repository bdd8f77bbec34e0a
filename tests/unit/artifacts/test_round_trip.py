"""What was saved comes back byte by byte, and is named by its digest."""

import hashlib
import json
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.dispatch.artifacts import ArtifactStore, SaveError
from ledger.events import Artifact
from tests.artifact_stores import BOTH, CHECKPOINT, FACTS, RUN, contents, saved, written


def test_what_was_saved_comes_back_byte_by_byte(store: ArtifactStore, tmp_path: Path) -> None:
    """I8, I9: a snapshot is complete, and its facts come with it."""
    snapshot = saved(store, written(tmp_path / "checkpoint-20")).snapshot_id

    manifest = store.fetch(RUN, snapshot, tmp_path / "restore")

    assert contents(tmp_path / "restore") == CHECKPOINT
    assert (manifest.run, manifest.facts, manifest.artifacts) == (RUN, FACTS, BOTH)
    store.verify(RUN, snapshot)


def test_the_id_is_the_digest_of_the_manifest_which_has_the_digest_of_every_file(
    local: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    """I8: anybody can check a snapshot without this program."""
    snapshot = saved(local, written(tmp_path / "checkpoint-20"))

    folder = home / RUN / snapshot.snapshot_id
    encoded = (folder / "manifest.json").read_bytes()
    assert hashlib.sha256(encoded).hexdigest() == snapshot.snapshot_id
    assert json.loads(encoded)["files"] == {
        name: {
            "sha256": hashlib.sha256(content).hexdigest(),
            "sizeBytes": len(content),
            "artifact": "trainingState" if "/" in name else "weights",
        }
        for name, content in CHECKPOINT.items()
    }
    assert contents(folder / "files") == CHECKPOINT
    assert snapshot.uri == f"file://{folder}"


def test_each_kind_has_its_size_and_its_digest(store: ArtifactStore, tmp_path: Path) -> None:
    """I8: kinds, and a digest per kind, of which the other kind's files are no part."""
    first = saved(store, written(tmp_path / "one"))
    other_state = CHECKPOINT | {"trainingState/rng/rank0.json": b"[4]"}
    second = saved(store, written(tmp_path / "two", other_state))

    assert first.size_bytes == {"weights": 7_002, "trainingState": 14_009}
    assert first.digests["weights"] == second.digests["weights"]
    assert first.digests["trainingState"] != second.digests["trainingState"]


@pytest.mark.parametrize("kind", BOTH)
def test_the_only_kind_that_is_claimed_has_all_files(
    store: ArtifactStore, tmp_path: Path, kind: Artifact
) -> None:
    """I8: a folder of one kind needs no subfolder."""
    snapshot = saved(store, written(tmp_path / "checkpoint-20"), (kind,))

    assert snapshot.size_bytes == {kind: 21_011}
    store.fetch(RUN, snapshot.snapshot_id, tmp_path / "restore", artifacts=[kind])
    assert contents(tmp_path / "restore") == CHECKPOINT


def test_a_training_state_without_a_folder_of_its_own_is_in_the_weights(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """I8: a trainer of one's own may write a single file that holds everything."""
    snapshot = saved(store, written(tmp_path / "checkpoint-20", {"all.bin": b"everything"}))

    assert snapshot.size_bytes == {"weights": 10, "trainingState": 0}
    assert snapshot.digests["trainingState"] == snapshot.digests["weights"]
    store.fetch(RUN, snapshot.snapshot_id, tmp_path / "restore", artifacts=["trainingState"])
    assert contents(tmp_path / "restore") == {"all.bin": b"everything"}


def test_the_same_files_and_facts_are_the_same_snapshot(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """I9: whoever saves again after a crash gets the id that was about to be committed."""
    first = saved(store, written(tmp_path / "one"))

    assert saved(store, written(tmp_path / "two")) == first
    assert saved(store, tmp_path / "two", step=40).snapshot_id != first.snapshot_id


def test_facts_may_hold_numbers_that_are_not_finite(store: ArtifactStore, tmp_path: Path) -> None:
    """I8: what the writer said is kept, in words that JSON has."""
    writer = {"loss": float("nan"), "text": "Größe 🎉", "nested": [{"limit": float("inf")}]}
    snapshot = saved(store, written(tmp_path / "one"), writer=writer)

    assert store.manifest(RUN, snapshot.snapshot_id).facts["writer"] == {
        "loss": "NaN",
        "text": "Größe 🎉",
        "nested": [{"limit": "Infinity"}],
    }


def test_facts_that_are_nested_without_end_are_refused(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """U21: what a worker says cannot break the server."""
    writer: dict[str, Any] = {}
    for _ in range(300):
        writer = {"a": writer}

    with pytest.raises(SaveError, match="nested too deep"):
        saved(store, written(tmp_path / "one"), writer=writer)


@given(
    st.dictionaries(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"))
            .filter(lambda part: part not in ("", ".", ".."))
            .map(lambda part: part[:20])
            | st.sampled_from(
                ["manifest.json", "files", "trainingState", "a b", "損失", "::", "*"]
            ),
            min_size=1,
            max_size=3,
        ).map("/".join),
        st.binary(max_size=40),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["file", "memory"]),
)
@settings(max_examples=25)  # each one waits for a disk
def test_any_folder_comes_back_as_it_was(files: dict[str, bytes], kind: str) -> None:
    """I9, U21: whatever the files are called."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        for name, content in files.items():
            with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                written(source, {name: content})
        url = f"file://{folder}/store" if kind == "file" else f"memory://{uuid.uuid4().hex}"
        store = ArtifactStore(url)
        snapshot = saved(store, source, ("weights",)).snapshot_id

        store.fetch(RUN, snapshot, Path(folder, "restore"))

        assert contents(Path(folder, "restore")) == contents(source) != {}
