"""Runs of other trackers: small files of the shapes that they write, through the real server."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import histories
from tests.histories import STARTED, Importer, scalars, state, written

ROW = {"epoch": 0.5, "grad_norm": 4.0, "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Importer]:
    with histories.importer(tmp_path_factory.mktemp("home")) as server:
        yield server


# -- trainer_state.json ----------------------------------------------------------------------------


def test_rows_of_one_step_are_merged_and_nothing_is_lost(product: Importer, tmp_path: Path) -> None:
    """C34: the closing summary stands beside the loss of its step; step 0 is a validation."""
    file = state(
        tmp_path,
        {"step": 0, "epoch": 0, "eval_loss": 3.5},
        {"step": 2, "loss": 2.0, **ROW},
        {"step": 4, "loss": 1.0, **ROW},
        {"step": 4, "eval_loss": 1.25, "epoch": 1.0},
        {"step": 4, "train_loss": 1.5, "train_runtime": 12.5, "epoch": 1.0},
    )

    answer = product.run("trainer-state", file)

    steps = product.steps(answer)
    assert steps == {
        2: {"loss": 2.0, **ROW},
        4: {"loss": 1.0, "train_loss": 1.5, "train_runtime": 12.5, **ROW, "epoch": 1.0},
    }
    assert answer["replaced"] == 1  # the epoch of step 4 came again as 1.0
    validations = product.metrics(answer)["validations"]
    assert [(row["step"], row["measured"]["eval_loss"]) for row in validations] == [
        (0, 3.5),
        (4, 1.25),
    ]
    results = product.record(answer)["results"]
    assert (results["validationLoss"]["value"], results["validationLoss"]["step"]) == (1.25, 4)
    assert (results["trainingLoss"]["mean"], results["trainingLoss"]["steps"]) == (1.5, 2)


def test_the_record_says_where_it_is_from_and_no_cost(product: Importer, tmp_path: Path) -> None:
    """C38: what is not known is null, never 0; the steps are those that the state counts."""
    answer = product.run("trainer-state", state(tmp_path, {"step": 3, "loss": 2.25}))

    record = product.record(answer)
    assert record["imported"] == {
        "source": "trainer-state",
        "file": "trainer_state.json",
        "sha256": answer["sha256"],
        "beside": None,
        "isTimed": False,
        "trainingSeconds": None,
    }
    assert (record["phase"], record["observedStep"], record["progress"]["total"]) == (
        "COMPLETED",
        4,
        4,
    )
    assert (record["baseModel"], record["dataset"], record["name"]) == (
        None,
        None,
        "trainer_state.json",
    )
    assert record["cost"] == {
        "deviceSeconds": None,
        "estimate": False,
        "deviceKind": None,
        "split": None,
        "throughput": None,
        "money": None,
    }
    assert {
        name: record["timing"][name] for name in ("startedAt", "endedAt", "durationMillis")
    } == (dict.fromkeys(("startedAt", "endedAt", "durationMillis")))
    (attempt,) = record["attempts"]
    assert (attempt["devices"], attempt["deviceSeconds"], attempt["outcome"]) == (
        [],
        None,
        "completed",
    )
    assert record["settings"]["configuration"]["learningRate"] is None
    assert record["settings"]["hyperparameters"] == {"max_steps": 4, "num_train_epochs": 1}


def test_the_views_do_not_know_its_cost_and_times_either(product: Importer, tmp_path: Path) -> None:
    """S119: NULL in SQL where the record has null."""
    answer = product.run("trainer-state", state(tmp_path, {"step": 4, "loss": 2.75}))

    rows = product.call(
        "sql",
        "SELECT c.device_seconds, c.useful_seconds, a.device_seconds, t.seconds, t.queued_seconds, "
        "t.ended_at, r.base_model FROM run_cost AS c JOIN attempts AS a USING (run_id) "
        f"JOIN run_timing AS t USING (run_id) JOIN runs AS r USING (run_id) "
        f"WHERE run_id = '{answer['runId']}'",
        "-o",
        "csv",
    ).stdout

    assert rows.splitlines()[1:] == [",,,,,,"]


def test_numbers_that_are_not_finite_stay_what_they_are(product: Importer, tmp_path: Path) -> None:
    """C28, C35: NaN, the infinities and absent are four things, and none of the first clips."""
    rows = [
        {"step": 1, "loss": float("nan"), "grad_norm": float("inf")},
        {"step": 2, "loss": float("-inf"), "grad_norm": float("nan")},
        {"step": 3, "grad_norm": 11.009225845336914},
        {"step": 4, "loss": 1.0, "grad_norm": 0.5},
    ]

    answer = product.run("trainer-state", state(tmp_path, *rows), "--max-grad-norm", "1")

    assert product.steps(answer) == {
        1: {"loss": "NaN", "grad_norm": "Infinity"},
        2: {"loss": "-Infinity", "grad_norm": "NaN"},
        3: {"grad_norm": 11.009225845336914, "grad_clip_factor": 0.09083290814890146},
        4: {"loss": 1.0, "grad_norm": 0.5, "grad_clip_factor": 1.0},
    }
    record = product.record(answer)
    assert record["settings"]["configuration"]["maxGradNorm"] == 1.0
    assert "config.maxGradNorm" in record["stated"]


def test_the_same_content_is_the_same_run_under_any_name(product: Importer, tmp_path: Path) -> None:
    """C34: and that is said; with a token of its own it becomes a second one."""
    file = state(tmp_path, {"step": 4, "loss": 0.125})
    copy = written(tmp_path / "copy" / "renamed.json", file.read_text("utf-8"))
    first = product.run("trainer-state", file, "--name", "a")

    again = product.run("trainer-state", copy, "--name", "a")
    told = product.call("import", "trainer-state", copy, "--name", "a").stdout
    other = product.call("import", "trainer-state", file, "--name", "b", code=4)
    second = product.run("trainer-state", file, "--name", "b", "--submission-id", "mine")

    run_id = first["runId"]
    assert (first["created"], again["created"], again["runId"]) == (True, False, run_id)
    assert told == f"renamed.json was imported before, as run {run_id} with 1 step\n"
    assert other.stderr.splitlines() == [
        f"error: trainer_state.json was imported as run {run_id} with other options, or its "
        "content was read in another way",
        "hint: with --submission-id TOKEN it becomes a second run",
    ]
    assert second["created"]
    assert second["runId"] != run_id


# -- other files -----------------------------------------------------------------------------------


def test_a_trainer_log_says_its_length_in_days(product: Importer, tmp_path: Path) -> None:
    """C42: 9 days, 22:13:15 are 857,595 s."""
    said = {"total_steps": 3, "percentage": 99.0, "remaining_time": "0:00:00", "throughput": "0.00"}
    rows = [
        {"current_steps": 2, "loss": 2.5, "lr": 1e-5, "elapsed_time": "0:32:48", **said},
        {"current_steps": 3, "epoch": 1.0, "elapsed_time": "9 days, 22:13:15", **said},
    ]

    answer = product.run("trainer-log", histories.log(tmp_path, *rows))

    record = product.record(answer)
    assert product.steps(answer) == {2: {"loss": 2.5, "lr": 1e-5}, 3: {"epoch": 1.0}}
    assert (record["observedStep"], record["timing"]["durationMillis"]) == (3, 857_595_000)
    assert answer["leftOut"] == ["throughput"]


def test_final_results_beside_a_whole_history_belong_to_its_end(
    product: Importer, tmp_path: Path
) -> None:
    """C38: the evaluation after the last step is in no row of the history."""
    file = state(tmp_path, {"step": 4, "loss": 2.0}, {"step": 2, "eval_loss": 1.0})
    results = {"eval_loss": 1.5, "train_loss": 2.5, "train_runtime": 60.5, "epoch": 1.0}
    written(tmp_path / "all_results.json", json.dumps(results))

    told = product.call("import", "trainer-state", file).stdout

    run_id = told.split()[1]
    record = product.record({"runId": run_id})
    assert told == (
        f"run {run_id} has 1 step and 2 validations of trainer_state.json\n"
        "  final results are from all_results.json beside it\n"
    )
    assert record["imported"]["beside"] == {
        "file": "all_results.json",
        "sha256": hashlib.sha256((tmp_path / "all_results.json").read_bytes()).hexdigest(),
    }
    assert record["results"]["validationLoss"]["value"] == 1.5
    assert record["timing"]["durationMillis"] == 60_500
    assert record["latest"]["measured"] == {
        "loss": 2.0, "train_loss": 2.5, "train_runtime": 60.5, "epoch": 1.0,
    }  # fmt: skip


def test_event_files_have_times_and_count_from_0(product: Importer, tmp_path: Path) -> None:
    """C34, C35: each number has the precision of the file; times are those of the file."""
    tags = [(0, "train/loss", 0.1), (0, "eval/loss", 2.0), (1, "train/loss", float("nan"))]
    (tmp_path / "events.out.tfevents.1").write_bytes(scalars(*tags))
    (tmp_path / "events.out.tfevents.2").write_bytes(
        scalars((2, "train/loss", 0.5), began=STARTED + 60)
    )

    answer = product.run("tensorboard", tmp_path)

    stored = 0.10000000149011612  # 0.1 in 32 bits
    assert answer["loss"] == "train/loss"
    assert product.steps(answer) == {
        0: {"train/loss": stored, "loss": stored},
        1: {"train/loss": "NaN", "loss": "NaN"},
        2: {"train/loss": 0.5, "loss": 0.5},
    }
    record = product.record(answer)
    assert record["results"]["validationLoss"]["value"] == 2.0
    assert (record["imported"]["isTimed"], record["cost"]["deviceSeconds"]) == (True, None)
    timing = record["timing"]
    assert (timing["startedAt"], timing["endedAt"], timing["durationMillis"]) == (
        "2023-11-14T22:13:21.000Z",
        "2023-11-14T22:14:21.000Z",
        60_000,
    )


def test_a_table_needs_a_step_column_and_keeps_every_name(
    product: Importer, tmp_path: Path
) -> None:
    """C40: names with slashes, spaces and other letters; text is left out, and that is said."""
    names = "actor/grad_norm,a b:c__MIN,损失,p%/[x],note"
    file = written(tmp_path / "logs.csv", f"when,{names}\n2,1,2,3,4,warm\n5,NaN,-inf,,8,\n")

    refused = product.call("import", "csv", file, code=4)
    answer = product.run("csv", file, "--step-column", "when")

    assert refused.stderr.splitlines() == [
        "error: logs.csv has no column with steps",
        "hint: name one with --step-column; there are: 'a b:c__MIN', 'actor/grad_norm', 'note', "
        "'p%/[x]', 'when', '损失'",
    ]
    assert product.steps(answer) == {
        2: {"actor/grad_norm": 1.0, "a b:c__MIN": 2.0, "损失": 3.0, "p%/[x]": 4.0},
        5: {"actor/grad_norm": "NaN", "a b:c__MIN": "-Infinity", "p%/[x]": 8.0},
    }
    assert answer["leftOut"] == ["note"]


def test_a_column_with_times_is_when_things_happened(product: Importer, tmp_path: Path) -> None:
    """C42: dates without a zone are UTC."""
    table = "step,timestamp,loss\n1,2026-01-02T03:04:05,2\n2,2026-01-02T03:05:05.5,1\n"

    answer = product.run("csv", written(tmp_path / "timed.csv", table))

    timing = product.record(answer)["timing"]
    assert (timing["startedAt"], timing["durationMillis"]) == ("2026-01-02T03:04:05.000Z", 60_500)


def test_imported_runs_can_be_compared_and_audited(product: Importer, tmp_path: Path) -> None:
    """S94: both are of what nobody knows, so nothing speaks against it."""
    tables = {"a": "step,loss\n1,2\n2,1\n", "b": "step,loss\n2,1.5\n3,1\n"}
    runs = [
        product.run("csv", written(tmp_path / f"{name}.csv", text))["runId"]
        for name, text in tables.items()
    ]

    compared = product.call("runs", "compare", *runs).stdout
    audit = product.call("audit", "verify", runs[0]).stdout

    assert "1 step compared, run less baseline" in compared
    assert "1 step missing in the run: step 3" in compared
    row = next(line for line in compared.splitlines() if line.endswith("short of 10"))
    assert row.split()[-6:] == ["1", "1.5", "-0.5", "short", "of", "10"]
    assert "is whole" in audit


def test_imported_runs_that_were_told_otherwise_are_compared_across_plans(
    product: Importer, tmp_path: Path
) -> None:
    """S104, S105: what the state says of its trainer is compared as a plan is."""
    runs = [
        product.run("trainer-state", state(tmp_path / f"{epochs}", row, num_train_epochs=epochs))
        for epochs, row in ((1, {"step": 4, "loss": 2.0}), (3, {"step": 4, "loss": 1.5}))
    ]
    ids = [each["runId"] for each in runs]

    refused = product.call("runs", "compare", *ids, code=4)
    compared = product.call("runs", "compare", *ids, "--across-plans").stdout

    assert refused.stdout == ""
    assert "  hyperparameters.num_train_epochs: 1 here, 3 in the baseline\n" in refused.stderr
    assert (
        "the plans differ\n"
        "field                             run  baseline\n"
        "hyperparameters.num_train_epochs  1    3\n"
    ) in compared
    assert " 4-4         1         2            1.5        +0.5  short of 10\n" in compared


# -- files that are broken -------------------------------------------------------------------------

BROKEN = {
    "cut.json": ('{"log_history": [{"st', "cut.json is no JSON: Unterminated string starting at"),
    "other.json": ('{"a": 1}', "other.json has no list log_history"),
    "row.json": ('{"log_history": [7]}', "row.json, row 1 of log_history is 7, expected an object"),
    "step.json": (
        '{"log_history": [{"step": 1}, {"loss": 2}]}',
        "step.json, row 2 of log_history has no step",
    ),
    "minus.json": (
        '{"log_history": [{"step": -1}]}',
        "minus.json, row 1 of log_history: step is -1, expected a whole number from 0",
    ),
    "text.json": (
        '{"log_history": [{"step": 1, "loss": 2}, {"step": 2, "loss": "two"}]}',
        "text.json, row 2 of log_history: loss is 'two', which is no number, and others of this "
        "name are",
    ),
    "none.json": ('{"log_history": []}', "none.json has no numbers of any step"),
    "cells.csv": ("step,loss\n1,2\n2\n", "cells.csv, line 3 has 1 cells, and there are 2 columns"),
    "half.csv": (
        "step,loss\n1.5,2\n",
        "half.csv, line 2, column step is '1.5', expected a whole number from 0",
    ),
    "comma.csv": (
        'step,loss\n1,2\n2,"1,3"\n',
        "comma.csv, line 3: loss is '1,3', which is no number, and others of this name are",
    ),
    "twice.csv": ("step,loss,loss\n1,2,3\n", "twice.csv has two columns named 'loss'"),
    "when.csv": (
        "step,timestamp,loss\n1,noon,2\n",
        "when.csv, line 2, column timestamp is 'noon', expected a date or seconds since 1970",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_a_sentence_and_makes_nothing(
    product: Importer, tmp_path: Path, name: str
) -> None:
    """C34, C35: it names the file, the line and the field."""
    text, sentence = BROKEN[name]
    file = written(tmp_path / name, text)
    before = product.api.service.ledger.position()

    done = product.call("import", "csv" if name.endswith("csv") else "trainer-state", file, code=4)

    said, hint = done.stderr.splitlines()
    assert said.startswith(f"error: {sentence}")
    assert hint.startswith("hint: ")
    assert product.api.service.ledger.position() == before


def test_a_damaged_event_file_is_refused_and_a_cut_one_read(
    product: Importer, tmp_path: Path
) -> None:
    """C34: a trainer that is killed leaves its last record unfinished."""
    file = tmp_path / "log" / "events.out.tfevents.1"
    file.parent.mkdir()
    whole = scalars((1, "loss", 2.0), (2, "loss", 1.0))
    file.write_bytes(whole[:60] + b"?" + whole[61:])

    damaged = product.call("import", "tensorboard", file.parent, code=4)
    file.write_bytes(whole[:-3])
    answer = product.run("tensorboard", file.parent)
    above = product.call("import", "tensorboard", tmp_path, code=4)

    assert damaged.stderr.splitlines()[0] == (
        "error: events.out.tfevents.1, record 2 does not have the checksum that stands beside it"
    )
    assert list(product.steps(answer)) == [1]
    assert above.stderr.splitlines()[1] == "hint: name a folder below it: 'log'"
