"""docs/snapshots.md: manifests and digests are what it says."""

import hashlib
import json
import re
from pathlib import Path

from engine.dispatch.artifacts import ArtifactStore, Manifest
from tests.artifact_stores import saved, written

PAGE = (Path(__file__).parents[3] / "docs/snapshots.md").read_text(encoding="utf-8")


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
