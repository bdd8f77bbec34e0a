"""The engine ``trl`` on several devices: real processes, the tiny model, on CPUs."""

import json
import random
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RefusalError
from engine.worker.start import Start
from tests.trl_ranks import Trained, apart, train_ranks
from tests.trl_runs import (
    QUESTIONS,
    adapter_of,
    after,
    chat,
    copy,
    numbers,
    of_kind,
    saving,
    tiny_model,
    tuned,
    updates,
    write_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

# 25 rows by 12 are 3 updates an epoch, the last of one row: over two ranks, one of them has none.
ROWS, PER_UPDATE, EPOCHS = 25, 12, 2
WHOLE, PASSES, RANKS = "1 x 12", "1 x (3 x 4)", "2 x (2 x 3)"
PATIENCE = 8.0  # seconds; on a busy machine a rank comes some tenths of one after another
DIVISIONS: dict[str, dict[str, int]] = {
    WHOLE: {"microBatchSequences": 12},
    PASSES: {"microBatchSequences": 3},
    RANKS: {"microBatchSequences": 3, "devices": 2},
}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("data")
    texts = [(QUESTIONS[n % 4], "On its way. " * (1 + n % 3) + str(n)) for n in range(ROWS)]
    made = [chat(*each) for each in texts]
    return {
        "baseModel": str(apart(tiny_model, folder / "tiny")),
        "dataset": str(write_rows(folder / "rows.jsonl", made)),
        "validation": {"dataset": str(write_rows(folder / "kept.jsonl", made[:7])), "every": 3},
        "config": {
            "learningRate": 0.01,
            "epochs": EPOCHS,
            "sequencesPerUpdate": PER_UPDATE,
            "maxSeqLength": 120,
            "lora": {"rank": 4, "alpha": 8, "dropout": 0.0},
        },
        "execution": {},
    }


@pytest.fixture(scope="module")
def trained(
    document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Trained]:
    return {
        name: train_ranks(
            tmp_path_factory.mktemp("trained"), saving(document, saveEvery=4, **division)
        )
        for name, division in DIVISIONS.items()
    }


def test_the_division_of_an_update_changes_no_row_of_it(trained: dict[str, Trained]) -> None:
    """S95, S107, C15: the same 12 at every update, 1 at the end, each once an epoch."""
    whole = trained[WHOLE].rows

    assert [len(whole[step]) for step in sorted(whole)] == [12, 12, 1, 12, 12, 1]
    assert trained[PASSES].rows == trained[RANKS].rows == whole
    for first in (1, 4):
        of_epoch = [row for step in range(first, first + 3) for row in whole[step]]
        assert len({tuple(row) for row in of_epoch}) == ROWS


@pytest.mark.parametrize("division", [PASSES, RANKS])
def test_the_division_of_an_update_changes_no_number_of_it(
    trained: dict[str, Trained], division: str
) -> None:
    """S92, S107, C15: equal names; loss over all targets, norm of the whole gradient, to 1e-5."""
    whole, divided = numbers(trained[WHOLE].lines), numbers(trained[division].lines)

    assert divided.keys() == whole.keys()
    for place, expected in whole.items():
        found = divided[place]
        assert found.keys() == expected.keys(), place
        for name in expected.keys() & {"loss", "grad_norm", "adapter_norm", "eval_loss"}:
            assert found[name] == pytest.approx(expected[name], rel=1e-5, abs=0), (place, name)
        for name in expected.keys() & {"num_tokens", "eval_num_tokens", "learning_rate"}:
            assert found[name] == expected[name], (place, name)


def test_the_planned_total_is_the_update_that_is_reached(trained: dict[str, Trained]) -> None:
    """C15: 25 rows by 12 are 3 updates an epoch, whatever the division."""
    for each in trained.values():
        assert each.codes == [0] * len(each.codes)
        assert [line["totalSteps"] for line in of_kind(each.lines, "training")] == [6]
        assert [line["step"] for line in updates(each.lines)] == [1, 2, 3, 4, 5, 6]
        assert each.lines[-1]["kind"] == "completed"


def test_validation_is_over_every_row_once(trained: dict[str, Trained]) -> None:
    """S13: 7 rows over two ranks by 3 would need 12 with rows that are taken twice."""
    losses = {
        name: [line["measured"]["eval_loss"] for line in of_kind(each.lines, "validation")]
        for name, each in trained.items()
    }

    assert [len(each) for each in losses.values()] == [2, 2, 2]
    assert losses[RANKS] == pytest.approx(losses[WHOLE], rel=1e-5)


def test_what_the_engine_was_asked_for_names_the_division(trained: dict[str, Trained]) -> None:
    """S107, S118: devices, passes and accumulation, and what carries messages between them."""
    (said,) = of_kind(trained[RANKS].lines, "hparams")
    (engine,) = of_kind(trained[RANKS].lines, "engineConfig")

    values = said["values"]
    assert (values["devices"], values["microBatchSequences"], values["accumulation"]) == (2, 3, 2)
    assert engine["resolved"]["ddp_backend"] == "gloo"
    assert engine["resolved"]["ddp_timeout"] == 120  # seconds that the ranks here wait
    assert engine["resolved"]["average_tokens_across_devices"] is True


def test_every_device_has_its_peak_and_none_is_taken_for_all(trained: dict[str, Trained]) -> None:
    """S15, S62: the memory of each rank; what held one of them is not said of both."""
    newest = of_kind(trained[RANKS].lines, "memory")[-1]

    assert set(newest["peakBytes"]) == {"cpu:0", "cpu:1"}
    assert all(peak > 50_000_000 for peak in newest["peakBytes"].values())
    assert "breakdown" not in newest


def test_only_rank_0_saves_and_says_that_all_is_done(trained: dict[str, Trained]) -> None:
    """engine.md section 9: rank 0 sends metrics, others failures."""
    (other,) = trained[RANKS].others

    assert not {"snapshot", "model", "completed", "memory"} & {line["kind"] for line in other}
    snapshot = trained[RANKS].folder / "checkpoint-4"
    names = {path.name for path in (snapshot / "trainingState").iterdir()}
    assert {"rng.pt", "rng-1.pt"} <= names
    assert json.loads((snapshot / "writer.json").read_text())["worldSize"] == 2


# With dropout, on two ranks: one that nobody interrupted, and one of which rank 1 alone is asked to
# end, and which then goes on.


@pytest.fixture(scope="module")
def unbroken(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train_ranks(tmp_path_factory.mktemp("unbroken"), dropping(document))


@pytest.fixture(scope="module")
def ended(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("ended")
    return train_ranks(folder, dropping(document), asking=(1, "end", 4))


@pytest.fixture(scope="module")
def resumed(
    ended: Trained, document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    folder = tmp_path_factory.mktemp("resumed")
    (offered,) = of_kind(ended.lines, "snapshot")
    snapshot = copy(Path(offered["path"]), folder)
    return train_ranks(folder, dropping(document), snapshot=snapshot)


def dropping(document: dict[str, Any]) -> dict[str, Any]:
    lora = document["config"]["lora"] | {"dropout": 0.2}
    return saving(tuned(document, lora=lora), saveEvery=100, **DIVISIONS[RANKS])


def test_a_request_that_reaches_one_rank_ends_all_at_the_same_update(ended: Trained) -> None:
    """I4: a SIGTERM may come to one process alone; rank 0 saves for all."""
    (snapshot,) = of_kind(ended.lines, "snapshot")
    of_ranks = [ended.lines, *ended.others]

    assert ended.codes == [0, 0]
    assert [updates(lines)[-1]["step"] for lines in of_ranks] == [snapshot["step"]] * 2
    assert snapshot["step"] in (4, 5)
    assert snapshot["artifacts"] == ["weights", "trainingState"]


def test_a_training_on_two_ranks_goes_on_as_if_nobody_had_ended_it(
    unbroken: Trained, ended: Trained, resumed: Trained
) -> None:
    """I5: bit for bit over gloo, with dropout that each rank draws for itself."""
    step = of_kind(ended.lines, "snapshot")[0]["step"]
    (check,) = of_kind(resumed.lines, "restoreCheck")

    assert numbers(resumed.lines) == after(step, unbroken.lines)
    assert adapter_of(resumed.lines) == adapter_of(unbroken.lines)
    assert resumed.rows == {at: rows for at, rows in unbroken.rows.items() if at > step}
    assert check["verdict"] == "exact"
    assert check["parts"]["rng"] == "exact"


def test_a_rank_that_stands_still_is_given_up_by_the_others(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """Rank 0 waits for it for as long as it may, and says by its exit code that it has."""
    wish = (1, "stand still", 2)
    found = train_ranks(tmp_path, dropping(document), asking=wish, patience=PATIENCE)

    assert found.codes == [75, -9]
    assert updates(found.lines)[-1]["step"] in (2, 3)
    assert not of_kind(found.lines, "failed")


def test_what_rank_0_does_alone_may_take_longer_than_the_ranks_wait_for_each_other(
    unbroken: Trained, document: dict[str, Any], tmp_path: Path
) -> None:
    """A disk may take minutes for a snapshot, and nobody is to be given up for that."""
    found = train_ranks(tmp_path, dropping(document), patience=PATIENCE, before_save=_be_slow)

    assert found.codes == [0, 0]
    assert numbers(found.lines) == numbers(unbroken.lines)


def _be_slow(patience: float) -> None:
    """The disk takes longer than anybody waits for another rank."""
    time.sleep(1.2 * patience)


def test_the_ranks_drop_out_otherwise_than_each_other(ended: Trained) -> None:
    """One seed for all would drop the same of every share of a batch."""
    (offered,) = of_kind(ended.lines, "snapshot")
    folder = Path(offered["path"]) / "trainingState"

    first, second = (apart(_drawn_from, folder / name) for name in ("rng.pt", "rng-1.pt"))

    assert len({*first, *second}) == 6


def _drawn_from(path: Path) -> list[float]:
    """The next numbers of Python, numpy and torch after a saved state."""
    torch, rng = import_module("torch"), import_module("engine.worker.trl.rng")
    rng.put(torch.load(path, weights_only=True))
    of_numpy = import_module("numpy").random.random()
    return [random.random(), float(of_numpy), torch.rand(()).item()]


@pytest.mark.parametrize(("before", "devices"), [(RANKS, 1), (RANKS, 4), (PASSES, 2)])
def test_another_number_of_devices_goes_on_with_the_same_rows(
    trained: dict[str, Trained],
    document: dict[str, Any],
    tmp_path: Path,
    before: str,
    devices: int,
) -> None:
    """C27: rows as they were, numbers to 1e-5; random numbers differ, which is said."""
    snapshot = copy(trained[before].folder / "checkpoint-4", tmp_path)
    division = {"microBatchSequences": 3, "devices": devices}

    found = train_ranks(tmp_path, saving(document, saveEvery=100, **division), snapshot=snapshot)

    whole = trained[WHOLE]
    assert found.rows == {step: whole.rows[step] for step in (5, 6)}
    for place, expected in after(4, whole.lines).items():
        for name in expected.keys() & {"loss", "grad_norm", "adapter_norm", "eval_loss"}:
            assert numbers(found.lines)[place][name] == pytest.approx(expected[name], rel=1e-5)
        assert numbers(found.lines)[place].get("num_tokens") == expected.get("num_tokens")
    (check,) = of_kind(found.lines, "restoreCheck")
    assert (check["verdict"], check["parts"]) == (
        "differs",
        {
            "adapter": "exact",
            "optimizer": "exact",
            "schedule": "exact",
            "dataPosition": "exact",
            "rng": "differs",
        },
    )


def test_random_numbers_that_a_rank_should_have_are_missed(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    """C20: two ranks saved theirs; the second one's are gone."""
    snapshot = copy(trained[RANKS].folder / "checkpoint-4", tmp_path)
    (snapshot / "trainingState" / "rng-1.pt").unlink()

    assert apart(_refusal_of, snapshot, 0) is None
    assert "its RNG state (rng-1.pt) is missing" in (apart(_refusal_of, snapshot, 1) or "")


def _refusal_of(snapshot: Path, rank: int) -> str | None:
    try:
        import_module("engine.worker.trl.restoring").read(Start(snapshot, "resume"), rank=rank)
    except RefusalError as refusal:
        return str(refusal)
    return None
