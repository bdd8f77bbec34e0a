"""The rows of the catalogue when a ledger leaves its home: taken along, and put back whole."""

import json
from pathlib import Path

import pytest

from api import offline, rows
from ledger.errors import RefusedError
from tests import apis
from tests.apis import Api
from tests.archives import unpack
from tests.integration.test_exchange import fetched, settings
from tests.trl_runs import chat, write_rows


def created(api: Api, folder: Path, name: str, *texts: str, status: int = 201) -> str:
    """The identity of a data set of one row, of that name."""
    file = write_rows(folder / f"{name}.jsonl", [chat(*texts)])
    made = api.post("/v1/datasets", {"file": str(file), "name": name}, status)
    return str(made["identity"])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return tmp_path / "old"


def kept(home: Path) -> dict[str, bytes]:
    """The files of rows in a home."""
    return {path.stem: path.read_bytes() for path in (home / "datasets").glob("*")}


def test_a_restored_home_has_the_rows_that_were_created(old: Path, tmp_path: Path) -> None:
    """I14: so a run that names them trains on them there."""
    with apis.api(old) as api:
        identities = {created(api, tmp_path, name, name, "Yes.") for name in ("one", "two")}
        (tmp_path / "backup.tar").write_bytes(fetched(api, "/v1/backup"))

    answer = offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    assert answer["datasets"] == 2
    assert kept(tmp_path / "new") == kept(old)
    assert kept(old).keys() == identities


def test_an_export_has_rows_where_they_are_asked_for(old: Path, tmp_path: Path) -> None:
    """I14: in the form in which they were created, and an import takes them over."""
    with apis.api(old) as api:
        identity = created(api, tmp_path, "one", "a", "b")
        without = unpack(fetched(api, "/v1/export"), tmp_path / "without")
        whole = unpack(fetched(api, "/v1/export", datasets="true"), tmp_path / "whole")

    answer = offline.import_(settings(tmp_path / "new"), whole)

    assert not (without / "datasets").exists()
    assert (whole / "datasets" / f"{identity}.jsonl").read_bytes() == kept(old)[identity]
    assert answer["datasets"] == 1
    assert kept(tmp_path / "new") == kept(old)
    assert offline.import_(settings(tmp_path / "other"), without)["datasets"] == 0


def test_a_backup_without_rows_has_the_catalogue_all_the_same(old: Path, tmp_path: Path) -> None:
    """I14: the data set is known, and its rows can be created again."""
    with apis.api(old) as api:
        identity = created(api, tmp_path, "one", "a", "b")
        (tmp_path / "backup.tar").write_bytes(fetched(api, "/v1/backup", datasets="false"))

    answer = offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    assert answer["datasets"] == 0
    with apis.api(tmp_path / "new") as api:
        assert api.get("/v1/datasets/one")["identity"] == identity
        assert created(api, tmp_path, "one", "a", "b", status=200) == identity
    assert kept(tmp_path / "new") == kept(old)


def test_rows_that_are_gone_are_named_and_hold_up_no_backup(old: Path, tmp_path: Path) -> None:
    with apis.api(old) as api:
        gone, there = (created(api, tmp_path, name, name, "Yes.") for name in ("one", "two"))
        (old / "datasets" / f"{gone}.jsonl").unlink()
        archive = fetched(api, "/v1/backup")
    (tmp_path / "backup.tar").write_bytes(archive)

    answer = offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    manifest = json.loads((unpack(archive, tmp_path / "files") / "manifest.json").read_text())
    assert {each["identity"]: each.get("leftOut") for each in manifest["datasets"]} == {
        gone: "its rows are not in the home any more",
        there: None,
    }
    assert answer["datasets"] == 1
    assert kept(tmp_path / "new").keys() == {there}


def test_rows_that_were_changed_in_the_archive_are_refused(old: Path, tmp_path: Path) -> None:
    """U14: with what they are of, and nothing of them is left."""
    with apis.api(old) as api:
        identity = created(api, tmp_path, "one", "a", "b")
        archive = fetched(api, "/v1/backup")
    content = (old / "datasets" / f"{identity}.jsonl").read_bytes()
    changed = content.replace(b'"b"', b'"c"')
    (tmp_path / "backup.tar").write_bytes(archive.replace(content, changed))

    with pytest.raises(RefusedError, match=f"rows of data set {identity} are not what the manif"):
        offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    assert kept(tmp_path / "new") == {}
    assert not (tmp_path / "new" / "ledger.db").exists()


def test_a_manifest_leads_to_no_file_but_that_of_a_data_set(tmp_path: Path) -> None:
    """Whoever made the archive chose the names in it."""
    said = {"identity": "../../etc/passwd", "sizeBytes": 1, "sha256": "00"}

    with pytest.raises(RefusedError, match="is no identity of a data set"):
        rows.put([said], tmp_path, lambda name: (tmp_path / name).open("rb"))
