"""Leaving and coming back: export and import, backup and restore, and ledgers of old versions."""

import json
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api import offline
from api.home import own
from api.service import Service
from api.settings import Settings
from engine.dispatch.artifacts import ArtifactStore, SaveError
from ledger import audit
from ledger.errors import LedgerError, RefusedError
from ledger.events import Job
from ledger.ledger import Ledger
from ledger.store.recorder import Stored
from projections.warehouse.compare import contents
from tests import apis, ledgers
from tests.apis import EXIT, Api
from tests.archives import unpack
from tests.product import eventually

FIRST_LEDGER = Path(__file__).parent.parent / "fixtures" / "first_ledger"
STEPS = 5


def settings(home: Path) -> Settings:
    return Settings(home=home, devices=(), synchronous="NORMAL")


@contextmanager
def resting(home: Path) -> Iterator[Service]:
    """The parts of a server that follows its ledger and dispatches nothing."""
    service = Service(settings(home))
    for follower in service.followers.values():
        follower.start()
    try:
        for name in service.followers:
            assert service.catch_up(name, service.ledger.position())
        yield service
    finally:
        for follower in service.followers.values():
            follower.stop()
        service.warehouse.close()
        service._database.close()


def ended(api: Api) -> str:
    """A run that was restored, saved two snapshots, and completed; it is sealed."""
    run_id = api.started(name="first")
    api.deliver(run_id, ledgers.step_lines(1, STEPS, kl=float("nan")))
    api.save(run_id, STEPS, line=STEPS + 1)
    api.deliver(run_id, ['{"kind":"restore","step":3}'], first=STEPS + 2)
    api.deliver(run_id, ledgers.step_lines(4, 8), first=STEPS + 3)
    api.save(run_id, 8, line=STEPS + 8)
    api.deliver(run_id, [apis.COMPLETED], first=STEPS + 9, exit=EXIT)
    eventually(lambda: api.get(f"/v1/runs/{run_id}/receipt")["seal"], "the end is sealed")
    return run_id


def fetched(api: Api, path: str, **parameters: Any) -> bytes:
    answer = api.client.get(path, headers=api.token, params=parameters)
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


def events(ledger: Ledger) -> list[Stored]:
    return ledger.read_stored(0, 10_000)


def told(service: Service) -> dict[str, Any]:
    """Everything that the projections hold, but for where files are."""
    documents, found = service.documents, {}
    for run_id in documents.runs():
        whole = documents.whole(run_id)
        found[run_id] = (whole, documents.get(run_id))
    with service.warehouse.read() as cursor:
        sums = contents(cursor, 2**62)
    return {"documents": found, "branching": documents.branching(), "warehouse": sums}


# -- export and import -----------------------------------------------------------------------------


def test_an_imported_ledger_is_equal_to_the_exported_one(tmp_path: Path) -> None:
    """U15: same digests, same positions, same projections, and the files of the snapshots."""
    with apis.sealing(tmp_path / "old") as api:
        run_id = ended(api)
        folder = unpack(fetched(api, "/v1/export", artifacts="true"), tmp_path / "export")
        for name in api.service.followers:
            api.service.catch_up(name, api.service.ledger.position())
        before, said = events(api.service.ledger), told(api.service)
        snapshots = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]

    answer = offline.import_(settings(tmp_path / "new"), folder)

    assert answer["events"] == answer["position"] == len(before)
    assert (answer["snapshots"], answer["openRuns"]) == (2, 0)
    with resting(tmp_path / "new") as service:
        assert events(service.ledger) == before
        assert told(service) == said
        assert service.auditor.verify()["ok"] is True
        for each in snapshots:
            service.artifacts.verify(run_id, each["snapshotId"])
    assert not list((tmp_path / "new").glob("*.new"))


def test_tokens_work_in_what_is_made_of_a_ledger_as_they_did_in_it(tmp_path: Path) -> None:
    """U15, I24: who may ask is an event like any other; docs/access.md warns of it."""
    with apis.sealing(tmp_path / "old") as api:
        ana, bob = api.token_for("ana", "reader"), api.token_for("bob", "operator")
        api.post("/v1/tokens/bob:revoke")
        folder = unpack(fetched(api, "/v1/export"), tmp_path / "export")

    offline.import_(settings(tmp_path / "new"), folder)

    with apis.sealing(tmp_path / "new") as api:
        me = apis.strict(api.client.get("/v1/whoami", headers=ana), 200)
        apis.strict(api.client.get("/v1/whoami", headers=bob), 401)
    assert (me["principal"], me["role"]) == ("user/ana", "reader")


def test_the_exported_tables_are_of_the_same_position_as_the_events(tmp_path: Path) -> None:
    with apis.sealing(tmp_path / "home") as api:
        ended(api)
        folder = unpack(fetched(api, "/v1/export"), tmp_path / "export")

    manifest = json.loads((folder / "manifest.json").read_text())
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    assert len(lines) == manifest["events"] == manifest["position"]
    assert {path.stem for path in (folder / "views").glob("*.parquet")} == set(manifest["views"])
    with duckdb.connect() as connection:
        ((steps, newest),) = connection.execute(
            f"SELECT count(*), max(step) FROM '{folder}/views/metrics.parquet'"
        ).fetchall()
        ((kinds,),) = connection.execute(
            f"SELECT count(DISTINCT topic) FROM read_json('{folder}/events.jsonl')"
        ).fetchall()
    assert (steps, newest) == (8, 8)
    assert kinds > 5
    assert not (folder / "artifacts").exists()


def test_a_damaged_snapshot_is_left_out_of_an_export_and_named(tmp_path: Path) -> None:
    with apis.sealing(tmp_path / "home") as api:
        run_id = ended(api)
        damaged, whole = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
        path = tmp_path / "home" / "snapshots" / run_id / damaged["snapshotId"] / "files"
        (path / "adapter_model.safetensors").write_bytes(b"other")
        folder = unpack(fetched(api, "/v1/export", artifacts="true"), tmp_path / "export")

    told_of = json.loads((folder / "manifest.json").read_text())["snapshots"]
    by_id = {each["snapshotId"]: each for each in told_of}
    assert "adapter_model.safetensors" in by_id[damaged["snapshotId"]]["leftOut"]
    assert by_id[whole["snapshotId"]]["artifacts"] == ["weights", "trainingState"]
    assert offline.import_(settings(tmp_path / "new"), folder)["snapshots"] == 1


def test_a_snapshot_of_which_a_part_was_swept_comes_back_as_that_part(tmp_path: Path) -> None:
    with apis.sealing(tmp_path / "home") as api:
        run_id = api.started(execution={"keepTrainingState": 1})
        api.deliver(run_id, ledgers.step_lines(1, STEPS))
        first = api.save(run_id, 1, line=STEPS + 1)
        api.save(run_id, 2, line=STEPS + 2)
        eventually(
            lambda: api.get(f"/v1/snapshots/{first}")["artifacts"] == ["weights"], "it is swept"
        )
        api.deliver(run_id, [apis.COMPLETED], first=STEPS + 3, exit=EXIT)
        folder = unpack(fetched(api, "/v1/export", artifacts="true"), tmp_path / "export")

    offline.import_(settings(tmp_path / "new"), folder)

    store = ArtifactStore(f"file://{tmp_path}/new/snapshots")
    store.verify(run_id, first, ["weights"])
    files = tmp_path / "new" / "snapshots" / run_id / first / "files"
    assert not (files / "trainingState").exists()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of a small ledger, with a snapshot."""
    with apis.sealing(tmp_path / "old") as api:
        ended(api)
        return unpack(fetched(api, "/v1/export", artifacts="true"), tmp_path / "export")


def refused(home: Path, folder: Path) -> str:
    """Why an import is refused; nothing is left of it."""
    with pytest.raises((LedgerError, SaveError)) as error:
        offline.import_(settings(home), folder)
    assert not list(home.glob("ledger.db*"))
    return str(error.value)


def test_an_export_that_is_not_whole_is_refused(tmp_path: Path, export: Path) -> None:
    """Whatever is missing: the manifest, the last lines, an event, a byte of a snapshot."""
    home, lines = tmp_path / "new", (export / "events.jsonl").read_bytes()

    (export / "events.jsonl").write_bytes(lines[: lines.rindex(b"\n", 0, -1) + 1])
    assert "the manifest says" in refused(home, export)
    (export / "events.jsonl").write_bytes(lines.replace(b'"loss":0.5', b'"loss":0.6', 1))
    assert "does not have its digest" in refused(home, export)
    (export / "events.jsonl").write_bytes(lines)
    (weights, *_) = export.glob("artifacts/*/*/files/adapter_model.safetensors")
    kept = weights.read_bytes()
    weights.write_bytes(b"x" * len(kept))
    assert "adapter_model.safetensors" in refused(home, export)
    weights.write_bytes(kept)
    (export / "manifest.json").unlink()
    assert "it is no export, or one that broke off" in refused(home, export)


def test_an_export_of_a_later_format_is_refused(tmp_path: Path, export: Path) -> None:
    manifest = json.loads((export / "manifest.json").read_text())
    (export / "manifest.json").write_text(json.dumps(manifest | {"format": 2, "version": "9.0"}))

    assert refused(tmp_path / "new", export) == "the export has format 2, and 1 is understood"


def test_a_manifest_cannot_lead_out_of_the_export(tmp_path: Path, export: Path) -> None:
    """U21."""
    manifest = json.loads((export / "manifest.json").read_text())
    manifest["snapshots"][0]["runId"] = "../../old/snapshots"
    (export / "manifest.json").write_text(json.dumps(manifest))

    assert "names a snapshot that cannot be one" in refused(tmp_path / "new", export)


def test_nothing_is_imported_into_a_home_that_is_not_empty(tmp_path: Path, export: Path) -> None:
    before = (tmp_path / "old" / "ledger.db").read_bytes()

    with pytest.raises(RefusedError, match="is not empty: its ledger has"):
        offline.import_(settings(tmp_path / "old"), export)

    assert (tmp_path / "old" / "ledger.db").read_bytes() == before


def test_nothing_is_imported_while_a_server_works(tmp_path: Path, export: Path) -> None:
    (tmp_path / "new").mkdir()
    with own(tmp_path / "new") as taken:
        assert not taken
        with pytest.raises(RefusedError, match="a server works in"):
            offline.import_(settings(tmp_path / "new"), export)


def test_a_home_whose_server_had_nothing_to_do_is_empty(tmp_path: Path, export: Path) -> None:
    with apis.sealing(tmp_path / "new"):
        pass

    answer = offline.import_(settings(tmp_path / "new"), export)

    with resting(tmp_path / "new") as service:
        assert service.ledger.position() == answer["position"]
        assert service.auditor.verify()["ok"] is True


# -- backup and restore ----------------------------------------------------------------------------


def test_a_backup_is_made_while_the_server_writes_and_is_of_one_moment(tmp_path: Path) -> None:
    """U14: consistent whatever is written meanwhile, and nobody who writes is held up."""
    with apis.sealing(tmp_path / "old") as api:
        run_id = ended(api)
        open_run = api.started()
        written, stop = [0], threading.Event()

        def write() -> None:
            while not stop.is_set():
                first = written[0] + 1
                api.service.ledger.record(
                    open_run, Job(1), first=first, lines=ledgers.step_lines(first, first + 9)
                )
                written[0] += 10

        writer = threading.Thread(target=write)
        writer.start()
        try:
            eventually(lambda: written[0] > 50, "the writer writes")
            before = api.service.ledger.position()
            archive = fetched(api, "/v1/backup")
            after = written[0]
            eventually(lambda: written[0] > after, "the writer goes on")
        finally:
            stop.set()
            writer.join()
        everything = events(api.service.ledger)
        record = api.service.documents.get(run_id)
    (tmp_path / "backup.tar").write_bytes(archive)

    answer = offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    assert answer["position"] >= before
    assert answer["openRuns"] == 1
    with resting(tmp_path / "new") as service:
        restored = events(service.ledger)
        assert restored == everything[: len(restored)]
        assert len(restored) == answer["events"]
        assert service.auditor.verify()["ok"] is True
        assert service.documents.get(run_id) == record


def test_documents_are_made_anew_after_a_restore(tmp_path: Path) -> None:
    """What was wrong with them is not put back."""
    with apis.sealing(tmp_path / "old") as api:
        run_id = ended(api)
        record = api.service.documents.get(run_id)
        with api.service._database.write() as connection:
            connection.execute("UPDATE document SET state = replace(state, 'first', 'other')")
        (tmp_path / "backup.tar").write_bytes(fetched(api, "/v1/backup"))

    offline.restore(settings(tmp_path / "new"), tmp_path / "backup.tar")

    with resting(tmp_path / "new") as service:
        assert service.documents.get(run_id) == record


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with apis.sealing(tmp_path / "old") as api:
        ended(api)
        (tmp_path / "backup.tar").write_bytes(fetched(api, "/v1/backup"))
    return tmp_path / "backup.tar"


def test_a_backup_that_was_damaged_is_refused(tmp_path: Path, backup: Path) -> None:
    content = backup.read_bytes()
    (position,) = [content.index(b"run.completed.v1")]
    backup.write_bytes(content[:position] + b"R" + content[position + 1 :])

    with pytest.raises(RefusedError, match="sha256 is"):
        offline.restore(settings(tmp_path / "new"), backup)

    assert not list((tmp_path / "new").glob("ledger.db*"))


def test_a_backup_that_broke_off_is_refused(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backup.write_bytes(backup.read_bytes()[:50_000])
    monkeypatch.setenv("TRAINLEDGER_HOME", str(tmp_path / "new"))

    assert offline.main(["restore", str(backup)]) == offline.REFUSED

    assert json.loads(capfd.readouterr().out)["error"]
    assert not list((tmp_path / "new").glob("ledger.db*"))


def test_a_backup_is_no_export(tmp_path: Path, export: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(export / "manifest.json", "manifest.json")

    with pytest.raises(RefusedError, match=r"manifest\.json is not that of a backup"):
        offline.restore(settings(tmp_path / "new"), tmp_path / "x.tar")


def test_the_triggers_are_there_after_a_restore(tmp_path: Path, backup: Path) -> None:
    offline.restore(settings(tmp_path / "new"), backup)

    with (
        closing(sqlite3.connect(tmp_path / "new" / "ledger.db")) as connection,
        pytest.raises(sqlite3.IntegrityError, match="an event is never deleted"),
    ):
        connection.execute("DELETE FROM stored_event")


# -- ledgers of old versions -----------------------------------------------------------------------


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A home with the ledger that the first version wrote (its code ran once, 2026-11-29)."""
    shutil.copytree(FIRST_LEDGER, tmp_path / "first")
    offline.import_(settings(tmp_path / "home"), tmp_path / "first")
    return tmp_path / "home"


def test_a_ledger_of_the_first_version_is_read_as_it_was_written(first: Path) -> None:
    """U14: old events are upcast on read, and projections are made anew."""
    with resting(first) as service:
        runs, _ = service.documents.list()
        records = {each["name"]: service.documents.get(each["runId"]) for each in runs}
        verdict = service.auditor.verify()

    assert verdict["ok"] is True
    assert verdict["unknownTopics"] == {}
    ends = {
        name: (record["phase"], record["attempts"][0]["outcome"], record["observedStep"])
        for name, record in records.items()
        if record
    }
    assert ends == {
        "first": ("COMPLETED", "completed", 3),
        "second": ("FAILED", "failed", 1),
        "third": ("CANCELLED", "cancelled", 8),
    }


def test_reading_an_old_ledger_changes_no_byte_of_it(first: Path) -> None:
    with resting(first) as service:
        topics = {stored.topic for stored in events(service.ledger)}
        digest = audit.verify(service.ledger)

    manifest = json.loads((FIRST_LEDGER / "manifest.json").read_text())
    assert "run.attempt_closed.v1" in topics
    assert "run.attempt_closed.v2" not in topics
    assert digest.events == manifest["events"]


def test_an_old_ledger_goes_on_with_new_events(first: Path) -> None:
    """And is sealed, from its first event on."""
    with apis.sealing(first) as api:
        run_id = ended(api)
        verdict = api.post("/v1/audit")
        record = api.get(f"/v1/runs/{run_id}")

    assert verdict["ok"] is True
    assert verdict["seals"]["upto"] > 51
    assert record["phase"] == "COMPLETED"
