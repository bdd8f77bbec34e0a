"""What it costs to take a snapshot into the store and to make a verified copy of it."""

import os
import shutil
import time
from pathlib import Path

from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50
from engine.dispatch.artifacts import ArtifactStore

ROUNDS = 7
RUN = "00000000000000aa"
FILES = {
    "adapter_model.safetensors": 10_000_000,
    "tokenizer.json": 3_500_000,
    "trainingState/optimizer.pt": 20_000_000,
    "trainingState/rng.pt": 20_000,
}  # bytes: those of SmolLM2-135M with an adapter of rank 8


def measure(place: Place) -> Result:
    """Save and fetch in turns with a plain copy of the same files."""
    folder = place.folder / "restore"
    source = folder / "checkpoint-20"
    for name, size in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(os.urandom(size))
    store = ArtifactStore(f"file://{folder}/store")
    times: dict[str, list[float]] = {"save": [], "fetch": [], "copy": []}
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        saved = store.save(
            RUN, source, artifacts=("weights", "trainingState"), facts={"round": number}
        )
        times["save"].append(time.perf_counter() - began)
        began = time.perf_counter()
        store.fetch(RUN, saved.snapshot_id, folder / f"fetched-{number}")
        times["fetch"].append(time.perf_counter() - began)
        began = time.perf_counter()
        _copy(source, folder / f"copied-{number}")
        times["copy"].append(time.perf_counter() - began)
        for name in (f"fetched-{number}", f"copied-{number}"):
            shutil.rmtree(folder / name)
    save, fetch, copy = (p50(times[name][1:]) * 1e3 for name in ("save", "fetch", "copy"))
    return Result(
        [
            Figure("verified copy of a snapshot", fetch, "ms", copy),
            Figure("hashing, copying and committing one", save, "ms", copy),
        ],
        f"{sum(FILES.values()) / 1e6:.1f} MB; floor: the same files copied and synced",
    )


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
