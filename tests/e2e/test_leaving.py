"""Leaving and coming back with the installed command: two homes, two servers, one ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import Product
from tests.trl_runs import chat, write_rows

SCRIPT = [{"training": 4}, {"steps": 2}, {"snapshot": 2}, {"steps": 2}]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[list[Product]]:
    products = [Product(tmp_path / name) for name in ("old", "imported", "restored")]
    for each in products:
        each.home.mkdir()
    yield products
    for each in products:
        each.close()


def test_a_run_is_the_same_in_a_home_that_its_ledger_came_to(
    homes: list[Product], tmp_path: Path
) -> None:
    """U14, U15, I14: one command each; the record, the series, snapshots, rows and the proof."""
    old, imported, restored = homes
    run_id = old.start(SCRIPT)
    record, steps = old.wait_for_phase(run_id, "COMPLETED"), old.steps(run_id)

    rows = write_rows(tmp_path / "rows.jsonl", [chat("Where is it?", "Here.")])
    old.run("datasets", "create", str(rows), "--name", "support")

    old.run("export", str(tmp_path / "export"), "--artifacts", "--datasets")
    old.run("backup", str(tmp_path / "backup.tar"))
    imported.run("import", str(tmp_path / "export"))
    restored.run("restore", str(tmp_path / "backup.tar"))

    for home in (imported, restored):
        assert home.record(run_id) | {"liveness": None} == record | {"liveness": None}
        assert home.steps(run_id) == steps
        assert home.json("audit", "verify")["ok"] is True
        identity = home.json("datasets", "get", "support")["identity"]
        assert (home.home / "datasets" / f"{identity}.jsonl").read_text() == rows.read_text()
    (snapshot,) = imported.json("runs", "snapshots", run_id)["snapshots"]
    assert imported.json("snapshots", "get", snapshot["snapshotId"])["manifest"]["files"]


def test_a_home_with_a_ledger_or_a_server_takes_no_other(
    homes: list[Product], tmp_path: Path
) -> None:
    old, other, _ = homes
    run_id = old.start(SCRIPT)
    old.wait_for_phase(run_id, "COMPLETED")
    old.run("export", str(tmp_path / "export"))

    old.run("import", str(tmp_path / "export"), expect=4)
    old.run("server", "stop")
    old.run("import", str(tmp_path / "export"), expect=4)
    other.run("server", "start")
    other.run("import", str(tmp_path / "export"), expect=4)
    other.run("server", "stop")
    other.run("import", str(tmp_path / "export"))

    assert other.record(run_id)["phase"] == "COMPLETED"
