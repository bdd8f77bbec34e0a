"""The artifact store: what is saved comes back byte by byte, or somebody hears of it."""

import errno
import hashlib
import json
import os
import re
import resource
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, settings, strategies as st

from engine.dispatch.artifacts import (
    ArtifactStore,
    DamagedError,
    Manifest,
    Saved,
    SaveError,
    StoreError,
)
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


# -- saving and fetching


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


# -- what cannot be a snapshot


def refusal(store: ArtifactStore, folder: Path, artifacts: tuple[Artifact, ...] = BOTH) -> str:
    """Why the folder is refused; what is left of it in the store is nothing."""
    with pytest.raises(SaveError) as refused:
        saved(store, folder, artifacts)
    assert store.kept(RUN) == []
    return str(refused.value)


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


# -- crashes and full disks


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


# -- damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


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


# -- what is not to be trusted


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


# -- giving up


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


# -- the page about it


PAGE = (Path(__file__).parents[2] / "docs/snapshots.md").read_text(encoding="utf-8")


def test_the_manifest_in_the_documentation_is_one() -> None:
    """I8: docs/snapshots.md says what a manifest looks like."""
    [shown] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    manifest = Manifest.model_validate_json(shown)

    assert json.loads(manifest.encoded()) == json.loads(shown)
    assert [*json.loads(manifest.encoded())] == [*json.loads(shown)]


def test_the_digest_of_a_kind_is_what_the_documentation_says(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """I8: anybody can compute it."""
    digests = saved(store, written(tmp_path / "one", {"b": b"b", "a": b"a"})).digests

    a, b = (hashlib.sha256(content).hexdigest() for content in (b"a", b"b"))
    assert digests["weights"] == hashlib.sha256(f'{{"a":"{a}","b":"{b}"}}'.encode()).hexdigest()
