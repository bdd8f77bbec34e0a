"""Preparation: stages, the cache, prepared rows and verdicts, with the tiny model's tokenizer."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.client import Reporter
from engine.errors import RefusalError, StoppedError
from engine.prepare.ahead import prepare_ahead
from engine.prepare.checking import check
from engine.prepare.keeping import keep
from engine.prepare.preparation import Means, Prepared, Recipe, Wanted, prepare
from ledger import plan
from tests.trl_runs import (
    REPOSITORY,
    Line,
    chat,
    of_kind,
    said,
    tiny_model,
    train_here,
    write_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

ROWS = [chat(f"Where is parcel {n}?", "It is on its way.") for n in range(600)]
KEPT = [chat(f"Where is invoice {n}?", "Gone.") for n in range(300)]
IGNORED = -100


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def document(tiny: Path, tmp_path: Path) -> dict[str, Any]:
    """600 rows to train on, 300 to measure on."""
    return {
        "baseModel": str(tiny),
        "dataset": str(write_rows(tmp_path / "rows.jsonl", ROWS)),
        "validation": {"dataset": str(write_rows(tmp_path / "kept.jsonl", KEPT))},
        "config": {"maxSeqLength": 96},
    }


def on(rows: Path, tiny: Path, length: int = 96) -> dict[str, Any]:
    """A plan on one file of rows."""
    return {"baseModel": str(tiny), "dataset": str(rows), "config": {"maxSeqLength": length}}


def wanted(document: dict[str, Any]) -> Wanted:
    """What a process without devices reads of a plan."""
    return Wanted.of(plan.resolve(plan.parse(document))[0])


def go_on() -> None:
    """Nothing is asked for."""


def run(
    document: dict[str, Any],
    spool: Path,
    *,
    cache: Path | None = None,
    asked: Callable[[], None] = go_on,
) -> SimpleNamespace:
    """What was prepared, or why it was not, and the lines about it."""
    spool.unlink(missing_ok=True)
    found: Prepared | None = None
    error: Exception | None = None
    try:
        found = prepare(plan.parse(document), Means(Reporter(spool), cache=cache, go_on=asked))
    except (RefusalError, StoppedError) as caught:
        error = caught
    lines = said(spool)
    stages = list(dict.fromkeys(line["stage"] for line in of_kind(lines, "stage")))
    return SimpleNamespace(prepared=found, error=error, lines=lines, stages=stages)


def tokenizing(lines: list[Line]) -> list[tuple[int, int]]:
    """Rows done, and rows in all, of each progress line."""
    return [
        (line["completed"], line["total"])
        for line in of_kind(lines, "stage")
        if line["stage"] == "tokenizing"
    ]


# Stages.


def test_rows_of_both_files_are_counted_up_to_all_of_them(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """S30, S32, S33, S34: monotone, ends equal; caching has no counts."""
    made = run(document, tmp_path / "spool", cache=tmp_path / "cache")

    counts = tokenizing(made.lines)
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == ((0, 900), (900, 900))
    assert len(counts) > 3
    assert made.stages == [
        "reading rows",
        "loading the tokenizer",
        "tokenizing",
        "caching the tokenised rows",
    ]
    (caching,) = [line for line in of_kind(made.lines, "stage") if "caching" in line["stage"]]
    assert not {"completed", "total"} & set(caching)


def test_data_fit_is_reported_with_the_rows_that_were_read(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """S46, S48: of the rows to train on."""
    made = run(document, tmp_path / "spool")

    (counted,) = of_kind(made.lines, "dataset")
    (fit,) = of_kind(made.lines, "dataFit")
    assert (counted["rows"], counted["validationRows"]) == (600, 300)
    assert {name: fit[name] for name in ("rows", "reached", "lostEnd", "dropped")} == {
        "rows": 600,
        "reached": 0,
        "lostEnd": 0,
        "dropped": 0,
    }


def test_a_preparation_that_is_asked_to_stop_does_so_among_its_rows(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """Design, exit 143: and keeps nothing."""
    spool = tmp_path / "spool"

    def stop() -> None:
        if '"tokenizing"' in spool.read_text():
            raise StoppedError

    made = run(document, spool, cache=tmp_path / "cache", asked=stop)

    assert isinstance(made.error, StoppedError)
    assert tokenizing(made.lines) == [(0, 900)]
    assert not (tmp_path / "cache").exists()


# The cache.


def test_rows_that_were_tokenised_before_are_not_tokenised_again(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """S36, S37: no tokenizer is loaded, and tokens, Data fit and counts are the same."""
    first = run(document, tmp_path / "spool", cache=tmp_path / "cache")
    again = run(document, tmp_path / "spool", cache=tmp_path / "cache")

    assert again.stages == ["reading rows"]
    assert "tokenizer" not in vars(again.prepared.recipe)
    assert again.prepared.training.digest() == first.prepared.training.digest()
    assert again.prepared.validation.digest() == first.prepared.validation.digest()
    assert again.prepared.fit == first.prepared.fit
    told = [of_kind(each.lines, "dataFit")[0] | {"at": 0} for each in (first, again)]
    assert told[0] == told[1]


def test_a_data_set_is_tokenised_once_however_it_is_divided(tiny: Path, tmp_path: Path) -> None:
    """S36, S95: another seed keeps other rows apart, out of the same entry."""
    rows = write_rows(tmp_path / "rows.jsonl", ROWS[:40])
    document = on(rows, tiny) | {"validation": {"fraction": 0.25}}
    seeds = [document | {"config": {"maxSeqLength": 96, "seed": seed}} for seed in (1, 2)]

    made = [run(each, tmp_path / "spool", cache=tmp_path / "cache").prepared for each in seeds]
    direct = run(seeds[1], tmp_path / "spool").prepared

    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert [(len(each.training), len(each.validation)) for each in made] == [(30, 10)] * 2
    assert made[0].validation.digest() != made[1].validation.digest()
    assert made[1].training.digest() == direct.training.digest()
    assert made[1].validation.digest() == direct.validation.digest()


def test_a_damaged_entry_is_tokenised_again_and_replaced(tiny: Path, tmp_path: Path) -> None:
    """S38."""
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), tiny)
    first = run(document, tmp_path / "spool", cache=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").iterdir()
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)

    second = run(document, tmp_path / "spool", cache=tmp_path / "cache")
    third = run(document, tmp_path / "spool", cache=tmp_path / "cache")

    assert tokenizing(second.lines)[-1] == (9, 9)
    assert tokenizing(third.lines) == []
    digests = {each.prepared.training.digest() for each in (first, second, third)}
    assert len(digests) == 1


def test_nothing_is_cached_where_the_base_model_cannot_be_told_from_another(
    tiny: Path, tmp_path: Path
) -> None:
    """S40: the rows are tokenised all the same, each time."""
    model = shutil.copytree(tiny, tmp_path / "model")
    (model / "model.safetensors").unlink()
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), model)

    for _ in range(2):
        made = run(document, tmp_path / "spool", cache=tmp_path / "cache")
        assert tokenizing(made.lines)[-1] == (9, 9)
        assert "caching the tokenised rows" not in made.stages
    assert not (tmp_path / "cache").exists()


def test_a_disk_that_does_not_take_the_rows_ends_nothing(tiny: Path, tmp_path: Path) -> None:
    """S36: the next run tokenises them again, that is all."""
    (tmp_path / "cache").write_text("no folder")
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), tiny)

    made = run(document, tmp_path / "spool", cache=tmp_path / "cache")

    assert len(made.prepared.training) == 9


def test_a_training_reads_the_rows_that_a_preparation_has_left(tiny: Path, tmp_path: Path) -> None:
    """S36, S37: what the snapshot says of its rows is the digest of those in the cache."""
    rows = write_rows(tmp_path / "rows.jsonl", ROWS[:4])
    config = {"maxSteps": 1, "sequencesPerUpdate": 4, "maxSeqLength": 96, "lora": {"rank": 2}}
    document = on(rows, tiny) | {"config": config}
    cache = tmp_path / "cache"
    prepared = run(document, tmp_path / "spool", cache=cache).prepared

    lines = train_here(tmp_path / "run", document, cache=cache)

    (snapshot,) = of_kind(lines, "snapshot")
    assert snapshot["writer"]["rows"] == prepared.training.digest()
    assert tokenizing(lines) == []
    assert lines[-1]["kind"] == "completed"


# Ahead of the training, in a process without devices.


def test_a_preparation_ahead_leaves_alone_what_it_cannot_keep(tiny: Path, tmp_path: Path) -> None:
    """S40: the rows are checked, and the training job tokenises them."""
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), tiny)
    reporter = Reporter(tmp_path / "spool")

    prepare_ahead(wanted(document), Means(reporter, cache=None, go_on=go_on))

    lines = said(tmp_path / "spool")
    assert [line["kind"] for line in lines] == ["stage", "dataset"]
    bad = on(write_rows(tmp_path / "bad.jsonl", [chat("a", "1", "b")]), tiny)
    with pytest.raises(RefusalError, match="an example ends with a user message"):
        prepare_ahead(wanted(bad), Means(reporter, cache=None, go_on=go_on))


POISON = 'raise RuntimeError("this library takes seconds to load")\n'


def process(folder: Path, document: dict[str, Any], cache: Path, **more: str) -> tuple[int, Any]:
    """Exit code and report lines of the real process."""
    folder.mkdir()
    resolved, _ = plan.resolve(plan.parse(document))
    (folder / "plan.json").write_text(json.dumps(resolved))
    environment = os.environ | {
        "TRAINLEDGER_PLAN": str(folder / "plan.json"),
        "TRAINLEDGER_SPOOL": str(folder / "spool"),
        "TRAINLEDGER_CACHE": str(cache),
        **more,
    }
    command = [sys.executable, "-m", "engine.prepare"]
    ended = subprocess.run(command, check=False, cwd=REPOSITORY, env=environment)
    return ended.returncode, said(folder / "spool")


def test_the_process_prepares_once_and_then_passes_without_loading_a_library(
    tiny: Path, tmp_path: Path
) -> None:
    """S30, S36: a second run with the same key passes at once."""
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), tiny)
    for name in ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "pydantic"):
        (tmp_path / f"{name}.py").write_text(POISON)

    code, lines = process(tmp_path / "first", document, tmp_path / "cache")
    again, later = process(
        tmp_path / "second", document, tmp_path / "cache", PYTHONPATH=str(tmp_path)
    )

    assert (code, again) == (0, 0)
    assert tokenizing(lines) == [(0, 9), (9, 9)]
    assert [line["kind"] for line in later] == ["stage", "dataset", "dataFit", "completed"]


def ahead(document: dict[str, Any], spool: Path, cache: Path) -> list[Line]:
    """What a process without devices says of the rows."""
    spool.unlink(missing_ok=True)
    prepare_ahead(wanted(document), Means(Reporter(spool), cache=cache, go_on=go_on))
    return said(spool)


@pytest.mark.parametrize("validation", ["none", "fraction", "another file"])
def test_rows_that_are_there_are_told_as_those_that_are_made(
    document: dict[str, Any], tmp_path: Path, validation: str
) -> None:
    """S36, S46, S47, S48: rows, identities and Data fit of a hit are those of the first run."""
    said_of = {"none": None, "fraction": {"fraction": 0.3}, "another file": document["validation"]}
    asked = document | {"validation": said_of[validation]}

    made = ahead(asked, tmp_path / "spool", tmp_path / "cache")
    found = ahead(asked, tmp_path / "spool", tmp_path / "cache")

    assert tokenizing(made) != []
    assert tokenizing(found) == []
    assert facts_of(found) == facts_of(made)


def facts_of(lines: list[Line]) -> list[Line]:
    told = of_kind(lines, "dataset") + of_kind(lines, "dataFit")
    return [{name: value for name, value in line.items() if name != "at"} for line in told]


def test_rows_of_which_nothing_is_left_are_refused_where_they_are_found_too(
    tiny: Path, tmp_path: Path
) -> None:
    """C02, S48: a second run claims no device either."""
    asked = on(write_rows(tmp_path / "rows.jsonl", ROWS[:9]), tiny, 8)
    refusals = []
    for _ in range(2):
        with pytest.raises(RefusalError) as refusal:
            ahead(asked, tmp_path / "spool", tmp_path / "cache")
        refusals.append(str(refusal.value))

    assert refusals[0] == refusals[1]
    assert refusals[0].startswith(f"nothing left to train on: in 9 of 9 rows of {asked['dataset']}")


def test_rows_of_the_catalogue_that_are_there_are_not_read_again(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S36, I14: their identity says which they are; without the file, nobody says so."""
    folder = tmp_path / "datasets"
    monkeypatch.setenv("TRAINLEDGER_DATASETS", str(folder))
    identity = keep(str(write_rows(tmp_path / "rows.jsonl", ROWS[:9])), folder)["identity"]
    asked = on(Path(f"dataset:support@{identity}"), tiny)
    made = ahead(asked, tmp_path / "spool", tmp_path / "cache")
    (kept,) = folder.iterdir()

    kept.write_text("not read")
    found = ahead(asked, tmp_path / "spool", tmp_path / "cache")
    kept.unlink()

    assert facts_of(found) == facts_of(made)
    with pytest.raises(RefusalError, match="are not in the catalogue any more"):
        ahead(asked, tmp_path / "spool", tmp_path / "cache")


def test_the_process_refuses_rows_before_any_library_is_loaded(tmp_path: Path) -> None:
    """S66, S68, C01: exit 65, and the sentence as the last line."""
    rows = write_rows(
        tmp_path / "rows.jsonl", [chat("a", "1"), chat("b", "2", "c"), chat("d", "3")]
    )

    code, lines = process(tmp_path / "run", on(rows, Path("none")), tmp_path / "cache")

    assert code == 65
    assert lines[-1]["kind"] == "refused"
    assert lines[-1]["reason"] == (
        f"an example ends with a user message: row 2 of {rows}, messages[2].role is 'user' "
        "(1 of 3 rows); end every example with an assistant message"
    )


def test_the_process_that_fails_says_so(tmp_path: Path) -> None:
    """Design, exit 70: here its plan is not there."""
    spool = tmp_path / "spool"
    environment = os.environ | {"TRAINLEDGER_SPOOL": str(spool)}
    command = [sys.executable, "-m", "engine.prepare"]

    ended = subprocess.run(
        command, check=False, cwd=REPOSITORY, env=environment, stderr=subprocess.DEVNULL
    )

    assert ended.returncode == 70
    assert [(line["kind"], line["cause"]) for line in said(spool)] == [("failed", "unknown")]


# Refusals.


def test_what_the_template_refuses_is_counted_over_all_rows(tiny: Path, tmp_path: Path) -> None:
    """S66, C08: the first of them by its number, in whatever part of the file it is."""
    call = {"function": {"name": "weather", "arguments": {"city": "Bern"}}}
    bad = chat("Rain?", "No.")
    bad["messages"][1] = {"role": "assistant", "tool_calls": [call]}
    made = [*ROWS[:300], bad, *ROWS[300:], bad]

    found = run(on(write_rows(tmp_path / "rows.jsonl", made), tiny), tmp_path / "spool")

    assert str(found.error) == (
        f"the chat template of {tiny} does not write a tool call: row 301 of "
        f"{tmp_path / 'rows.jsonl'}, messages[1].tool_calls[0] (2 of 602 rows); write that into "
        "the content of a message, leave it out, or give the base model's folder a chat template "
        "that writes it"
    )


def test_rows_whose_prompt_fills_the_window_are_refused(tiny: Path, tmp_path: Path) -> None:
    """C02: 8 of 8 rows have nothing left to train on."""
    rows = write_rows(tmp_path / "rows.jsonl", [chat("word " * 200, "ok")] * 8)

    found = run(on(rows, tiny, 64), tmp_path / "spool")

    assert str(found.error).startswith(
        f"nothing left to train on: in 8 of 8 rows of {rows} the answer begins after the first 64 "
        "tokens (the longest row has "
    )


def test_one_good_row_among_them_trains_alone(tiny: Path, tmp_path: Path) -> None:
    """C02, S48: dropped = 8."""
    made = [*[chat("word " * 200, "ok")] * 8, chat("a", "ok")]

    found = run(on(write_rows(tmp_path / "rows.jsonl", made), tiny, 80), tmp_path / "spool")

    assert len(found.prepared.training) == 1
    fit = found.prepared.fit
    assert (fit.rows, fit.dropped, fit.lost_end, fit.reached) == (9, 8, 8, 8)


def test_rows_to_measure_on_of_which_nothing_is_left_are_refused_as_such(
    tiny: Path, tmp_path: Path
) -> None:
    """S66: by their own file."""
    kept = write_rows(tmp_path / "kept.jsonl", [chat("word " * 200, "ok")] * 2)
    document = on(write_rows(tmp_path / "rows.jsonl", ROWS[:3]), tiny)

    found = run(document | {"validation": {"dataset": str(kept)}}, tmp_path / "spool")

    assert str(found.error).startswith(
        f"nothing left to measure the validation loss on: in 2 of 2 rows of {kept} "
    )


# Prepared rows.


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_prepared_rows_are_checked_and_cut_and_nothing_is_tokenised(
    tiny: Path, tmp_path: Path
) -> None:
    """S39: made with the base model's tokenizer and template, as they say."""
    made_with = {
        "tokenizer": sha256(tiny / "tokenizer.json"),
        "chatTemplate": sha256(tiny / "chat_template.jinja"),
    }
    made = [
        {"input_ids": [5, 6, 7], "labels": [IGNORED, 6, 7]} | made_with,
        {"input_ids": [5, 6, 7, 8], "labels": [IGNORED, IGNORED, 7, 8]},
        {"input_ids": [5, 6, 7, 8], "labels": [IGNORED, IGNORED, IGNORED, 8]},
    ]

    found = run(
        on(write_rows(tmp_path / "rows.jsonl", made), tiny, 3),
        tmp_path / "spool",
        cache=tmp_path / "cache",
    )

    assert [tuple(row) for row in found.prepared.training] == [
        ([5, 6, 7], [IGNORED, 6, 7]),
        ([5, 6, 7], [IGNORED, IGNORED, 7]),
    ]
    fit = found.prepared.fit
    assert (fit.rows, fit.reached, fit.lost_end, fit.dropped) == (3, 3, 2, 1)
    assert found.stages == ["reading rows", "loading the tokenizer"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"input_ids": [5, 400], "labels": [IGNORED, 400]},
            "a token is outside the vocabulary: row 2 of FILE, input_ids[1] is 400 (1 of 2 rows); "
            "the tokenizer of MODEL knows ",
        ),
        (
            {"input_ids": [5, -1], "labels": [IGNORED, -1]},
            "a token is outside the vocabulary: row 2 of FILE, input_ids[1] is -1 (1 of 2 rows); ",
        ),
        (
            {"input_ids": [1, 1, 5], "labels": [IGNORED, IGNORED, 5]},
            "an example begins with the start token twice: row 2 of FILE, input_ids begins with 1,",
        ),
        (
            {"input_ids": [5], "labels": [5], "tokenizer": "ab" * 32},
            "a row was prepared with another tokenizer: row 2 of FILE, tokenizer is abab",
        ),
        (
            {"input_ids": [5], "labels": [5], "chatTemplate": "cd" * 32},
            "a row was prepared with another chat template: row 2 of FILE, chatTemplate is cdcd",
        ),
    ],
)
def test_prepared_rows_of_another_model_are_refused_with_row_and_field(
    tiny: Path, tmp_path: Path, row: dict[str, Any], sentence: str
) -> None:
    """S39, C07."""
    rows = write_rows(tmp_path / "rows.jsonl", [{"input_ids": [5, 6], "labels": [5, 6]}, row])

    found = run(on(rows, tiny), tmp_path / "spool")

    said = str(found.error).replace(str(rows), "FILE").replace(str(tiny), "MODEL")
    assert said.startswith(sentence)


def test_prepared_rows_without_any_target_are_refused(tiny: Path, tmp_path: Path) -> None:
    """S39, C02."""
    rows = write_rows(tmp_path / "rows.jsonl", [{"input_ids": [5, 6], "labels": [IGNORED] * 2}])

    found = run(on(rows, tiny), tmp_path / "spool")

    assert "no label is a target within the first 96 tokens" in str(found.error)


# Verdicts without a run.


def verdict(rows: Path, tiny: Path, length: int, cache: Path | None = None) -> dict[str, Any]:
    means = Means(Reporter(os.devnull), cache=cache, go_on=go_on)
    return check(str(rows), Recipe(str(tiny), length), means)


def test_a_check_has_the_data_fit_of_a_run_and_leaves_it_the_rows(
    tiny: Path, tmp_path: Path
) -> None:
    """S46, S47, S48: the same numbers, and nothing is tokenised twice."""
    made = [*ROWS[:4], chat("word " * 200, "ok"), chat("Where?", "word " * 200)]
    rows = write_rows(tmp_path / "rows.jsonl", made)

    said = verdict(rows, tiny, 80, tmp_path / "cache")
    later = run(on(rows, tiny, 80), tmp_path / "spool", cache=tmp_path / "cache")

    assert said["accepted"] is True
    assert (said["reason"], said["form"], said["rows"]) == (None, "chat", 6)
    fit = later.prepared.fit
    assert said["dataFit"] == {
        "rows": 6,
        "reached": 2,
        "lostEnd": 2,
        "dropped": 1,
        "longest": fit.longest,
    }
    assert (fit.reached, fit.lost_end, fit.dropped) == (2, 2, 1)
    assert tokenizing(later.lines) == []


def test_a_check_refuses_what_a_run_refuses_in_the_same_words(tiny: Path, tmp_path: Path) -> None:
    """S66: with what was found until then."""
    ends_badly = write_rows(tmp_path / "a.jsonl", [chat("a", "1"), chat("b", "2", "c")])
    too_long = write_rows(tmp_path / "b.jsonl", [chat("word " * 200, "ok")])

    for rows, form in ((ends_badly, None), (too_long, "chat")):
        said = verdict(rows, tiny, 64)
        assert said["accepted"] is False
        assert said["reason"] == str(run(on(rows, tiny, 64), tmp_path / "spool").error)
        assert said["form"] == form
    assert verdict(too_long, tiny, 64)["dataFit"]["dropped"] == 1
