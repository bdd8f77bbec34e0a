"""Rows are prepared before devices are claimed: through the command line, and whoever dies."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.product import Product, eventually
from tests.trl_runs import chat, tiny_model, write_rows

HOLD = [{"training": 1}, {"silence": "1h"}]
LOADING = "loading the tokenizer"  # takes seconds: time to kill somebody


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Two devices, and the tiny model beside the home."""
    folder = tmp_path_factory.mktemp("prepares")
    product = Product(folder / "home", TRAINLEDGER_DEVICES='["cpu:0", "cpu:1"]')
    tiny_model(folder / "tiny")
    yield product
    product.close()


def start(home: Product, rows: Path, model: str = "") -> str:
    plan = home.home.parent / f"{rows.stem}.json"
    document = {
        "baseModel": model or str(home.home.parent / "tiny"),
        "dataset": str(rows),
        "config": {"epochs": 1, "sequencesPerUpdate": 4, "maxSeqLength": 200},
        "execution": {"devices": 2, "stopGrace": "300ms"},
    }
    plan.write_text(json.dumps(document))
    answer: dict[str, str] = home.json("runs", "start", "--force", "-f", str(plan))
    return answer["runId"]


def spool(home: Product, run_id: str, name: str) -> list[dict[str, Any]]:
    """What a job of the run has said: ``p1`` is its first preparation, ``a1`` its first attempt."""
    path = home.home / "attempts" / run_id / name / "spool" / "rank0.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def stages(home: Product, run_id: str, name: str) -> list[str]:
    """What the job says that it does, and has done before."""
    said = [each["stage"] for each in spool(home, run_id, name) if each["kind"] == "stage"]
    return list(dict.fromkeys(said))


def process(home: Product, run_id: str, name: str) -> psutil.Process:
    """The process of a preparation that loads the tokenizer now."""
    eventually(lambda: LOADING in stages(home, run_id, name), f"{name} loads the tokenizer")
    said = json.loads((home.home / "attempts" / run_id / name / "worker.json").read_text())
    return psutil.Process(said["pid"])


def test_a_run_whose_rows_are_refused_claims_no_device(home: Product, tmp_path: Path) -> None:
    """S66, S68, C01: 0 attempts, 0 device seconds, 0 rows of metrics, and where the fault is."""
    rows = [chat("Where is it?", "Here."), chat("Where?", "Here.", "Sure?"), chat("Is it?", "Yes.")]
    run_id = start(home, write_rows(tmp_path / "bad.jsonl", rows))

    record = home.wait_for_phase(run_id, "FAILED")

    assert record["failure"]["code"] == "refused"
    assert "an example ends with a user message: row 2 of" in record["failure"]["reason"]
    assert "(1 of 3 rows)" in record["failure"]["reason"]
    assert (record["attempts"], record["cost"]["deviceSeconds"]) == ([], 0)
    assert [each["phase"] for each in record["timing"]["visits"]] == ["SUBMITTED", "PREPARING"]
    assert home.steps(run_id) == []
    assert "an example ends with a user message" in home.run("runs", "logs", run_id)


def test_rows_are_prepared_while_others_hold_the_devices_and_whoever_dies(
    home: Product, tmp_path: Path
) -> None:
    """S29, S30, S36, S37, S38, S41, U3: nobody's death loses the run, and none of it costs."""
    rows = write_rows(tmp_path / "good.jsonl", [chat(f"Where is {n}?", "There.") for n in range(8)])
    holders = [home.start(HOLD) for _ in range(2)]
    for each in holders:
        home.wait_for_phase(each, "TRAINING")

    run_id = start(home, rows)
    process(home, run_id, "p1").kill()
    process(home, run_id, "p2")
    home.kill_server()
    eventually(lambda: spool(home, run_id, "p2")[-1]["kind"] == "completed", "it goes on")

    record = home.wait_for_phase(run_id, "WAITING")
    assert [each["outcome"] for each in record["preparations"]] == ["failed", "completed"]
    assert (record["attempts"], record["cost"]["deviceSeconds"]) == ([], 0)
    assert "tokenizing" in stages(home, run_id, "p2")

    flip(home)
    for each in holders:
        home.run("runs", "cancel", each, "--force")
    eventually(lambda: "loading the engine" in stages(home, run_id, "a1"), "it trains")
    assert "tokenizing" in stages(home, run_id, "a1")
    home.run("runs", "cancel", run_id, "--force")
    home.wait_for_phase(run_id, "CANCELLED")

    again = start(home, rows)
    eventually(lambda: "loading the engine" in stages(home, again, "a1"), "the rows are there")
    assert stages(home, again, "p1") == ["reading rows"]
    assert stages(home, again, "a1")[:2] == ["reading rows", "loading the engine"]
    home.run("runs", "cancel", again, "--force")
    home.wait_for_phase(again, "CANCELLED")
    assert home.json("audit", "verify")["ok"] is True


def flip(home: Product) -> None:
    """Turn around one byte of the rows that are kept."""
    (entry,) = (home.home / "cache" / "rows").glob("*.parquet")
    content: Any = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 0xFF
    entry.write_bytes(content)


def test_what_cannot_be_kept_is_left_to_the_training_job(home: Product, tmp_path: Path) -> None:
    """S40: the first phase passes; the job reads the rows after it has its devices."""
    rows = write_rows(tmp_path / "kept.jsonl", [chat("Where?", "There.")] * 4)
    kept = set((home.home / "cache" / "rows").glob("*"))

    run_id = start(home, rows, model="nobody/no-such-model")

    eventually(lambda: LOADING in stages(home, run_id, "a1"), "it reads the rows")
    home.run("runs", "cancel", run_id, "--force")
    record = home.wait_for_phase(run_id, "CANCELLED")
    assert [each["outcome"] for each in record["preparations"]] == ["completed"]
    assert stages(home, run_id, "p1") == ["reading rows"]
    assert set((home.home / "cache" / "rows").glob("*")) == kept
