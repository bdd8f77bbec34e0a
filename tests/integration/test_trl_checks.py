"""Start checks of the TRL worker: what they find of a good and of a broken start."""

import math
import random
import resource
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from engine.errors import RefusalError
from engine.prepare.tokens import Cut, TokenRows
from ledger.plan import Config, Execution
from tests.trl_runs import (
    Line,
    a_plan,
    adapter_of,
    copy,
    numbers,
    of_kind,
    said,
    saving,
    tiny_model,
    train_here,
    tuned,
    worker,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that this project does not write

ALL = ["vocabulary", "disk room", "save and load", "loss before training", "rows together"]
GUESSING = math.log(384)  # nats that a model loses which knows nothing


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def document(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """10 updates with dropout, saved after 4, 8 and 10."""
    return saving(a_plan(tiny, tmp_path_factory.mktemp("rows")), saveEvery=4)


@pytest.fixture(scope="module")
def checked(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return train_here(tmp_path_factory.mktemp("checked"), document)


def checks(lines: list[Line]) -> dict[str, Line]:
    """Each check that was reported, by its name."""
    return {line["name"]: line for line in of_kind(lines, "startCheck")}


def changed(tiny: Path, folder: Path, change: Any) -> Path:
    """A copy of the tiny model with other weights."""
    made = Path(shutil.copytree(tiny, folder / "changed"))
    weights = load_file(made / "model.safetensors")
    change(weights)
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    return made


def test_a_run_makes_every_check_before_its_first_update(checked: list[Line]) -> None:
    """S15, I19: in order, each with value, limits, unit and seconds."""
    kinds = [line["kind"] for line in checked]

    assert list(checks(checked)) == ALL
    assert {line["verdict"] for line in checks(checked).values()} == {"passed"}
    assert all(line["seconds"] >= 0 and line["unit"] for line in checks(checked).values())
    assert len(kinds) - kinds[::-1].index("startCheck") <= kinds.index("training")


def test_the_loss_before_training_is_that_of_its_shortest_rows(
    checked: list[Line], document: dict[str, Any]
) -> None:
    """I19: of as many rows as a micro-batch, over their targets, against ln of 384 words."""
    torch, transformers = import_module("torch"), import_module("transformers")
    preparation = import_module("engine.prepare.preparation")
    parsed = import_module("ledger.plan").parse(document)
    means = preparation.Means(
        import_module("engine.client").Reporter("/dev/null"), cache=None, go_on=lambda: None
    )
    rows = import_module("engine.worker.trl.checks").some_rows(
        preparation.prepare(parsed, means).training, 2
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(document["baseModel"])
    lost = targets = 0.0
    for row in rows:
        logits = model(torch.tensor([row.input_ids])).logits[0, :-1].double()
        labels = torch.tensor(row.labels[1:])
        lost += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        targets += int((labels != -100).sum())

    found = checks(checked)["loss before training"]

    assert found["value"] == pytest.approx(lost / targets, rel=1e-6)
    assert found["warnLimit"] == pytest.approx(1.1 * GUESSING)
    assert found["refuseLimit"] == pytest.approx(1.5 * GUESSING)


def test_checks_change_no_number_of_the_training(
    checked: list[Line], document: dict[str, Any], tmp_path: Path
) -> None:
    """C23: with dropout, every number and the final adapter are those of a run without them."""
    lines = train_here(tmp_path / "run", saving(document, startChecks=False))

    assert not checks(lines)
    assert numbers(lines) == numbers(checked)
    assert adapter_of(lines) == adapter_of(checked)


def test_an_attempt_that_goes_on_makes_the_cheap_checks_and_stays_exact(
    checked: list[Line], document: dict[str, Any], tmp_path: Path
) -> None:
    """C23, S15: the disk and the vocabulary; no model is looked at twice."""
    (snapshot,) = [each["path"] for each in of_kind(checked, "snapshot") if each["step"] == 4]

    lines = train_here(tmp_path / "run", document, snapshot=copy(Path(snapshot), tmp_path))

    assert list(checks(lines)) == ["vocabulary", "disk room"]
    assert adapter_of(lines) == adapter_of(checked)


def test_weights_that_are_no_numbers_are_refused_before_any_update(
    tiny: Path, document: dict[str, Any], tmp_path: Path
) -> None:
    """I19, S66: check, value, limit, and what to do; nothing was trained."""

    def spoil(weights: dict[str, Any]) -> None:
        weights["model.layers.0.mlp.up_proj.weight"][0, 0] = math.nan

    broken = document | {"baseModel": str(changed(tiny, tmp_path, spoil))}

    with pytest.raises(RefusalError) as refusal:
        train_here(tmp_path / "run", broken)

    assert str(refusal.value) == (
        "the start check loss before training found NaN nats, and its limit is 8.926; the base "
        "model does worse than guessing on these rows; make sure that its weights are whole and "
        "that its tokenizer is its own"
    )
    lines = said(tmp_path / "run" / "spool.jsonl")
    assert checks(lines)["loss before training"]["value"] == "NaN"
    assert checks(lines)["loss before training"]["verdict"] == "refused"
    assert not of_kind(lines, "training")


def test_a_model_that_guesses_badly_is_warned_of_and_trains(
    tiny: Path, document: dict[str, Any], tmp_path: Path
) -> None:
    """S15: louder random weights lose between 1.1 and 1.5 times what guessing does."""

    def shout(weights: dict[str, Any]) -> None:
        weights["model.norm.weight"].mul_(6)

    loud = document | {"baseModel": str(changed(tiny, tmp_path, shout))}

    lines = train_here(tmp_path / "run", tuned(loud, maxSteps=1))

    found = checks(lines)["loss before training"]
    assert 1.1 * GUESSING < found["value"] < 1.5 * GUESSING
    assert found["verdict"] == "warned"
    assert lines[-1]["kind"] == "completed"


def test_a_tokenizer_of_another_model_is_refused_by_the_worker(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """I19, S66: 346 tokens and 342 embeddings; exit 65 and the sentence."""
    small = import_module("tests.tiny_model").make(tmp_path / "small", vocabulary=342)

    code, lines = worker(tmp_path, document | {"baseModel": str(small)})

    assert code == 65
    assert checks(lines)["vocabulary"]["value"] == 4.0
    assert lines[-1]["kind"] == "refused"
    assert lines[-1]["reason"] == (
        "the start check vocabulary found 4 tokens without an embedding, and its limit is 0; the "
        f"tokenizer in {small} is of another model than its weights, which know 342 tokens; copy "
        "the folder again, whole"
    )


def test_an_adapter_that_does_not_come_back_from_the_disk_is_counted(tmp_path: Path) -> None:
    """I19: a disk that takes 100 bytes a file loses both tensors, and nothing is left behind."""
    torch, peft = import_module("torch"), import_module("peft")
    save_and_load = import_module("engine.worker.trl.checks").save_and_load
    inner = torch.nn.Sequential(torch.nn.Linear(8, 8))
    model = peft.get_peft_model(inner, peft.LoraConfig(r=2, target_modules=["0"]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    whole = save_and_load(model, tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        lost = save_and_load(model, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (whole.value, lost.value, lost.refuse) == (0, 2, 0)
    assert list(tmp_path.iterdir()) == []


def rows_of(*lengths: int) -> TokenRows:
    """Rows of so many tokens; the first token of each is its number."""
    np = import_module("numpy")
    ids = [np.array([n] * length, np.int32) for n, length in enumerate(lengths)]
    return TokenRows.of([Cut(each, each, len(each), False) for each in ids])


@pytest.mark.parametrize(
    ("lengths", "most", "chosen"),
    [
        ((9, 5, 7, 5), 2, [1, 2]),
        ((9, 5, 7, 5), 4, [1, 2, 0, 3]),
        ((5, 5, 5), 2, [0, 1]),
        ((5,), 4, [0]),
    ],
)
def test_short_rows_of_different_lengths_go_forward(
    lengths: tuple[int, ...], most: int, chosen: list[int]
) -> None:
    """I19: cheap, and with padding where there can be any."""
    some_rows = import_module("engine.worker.trl.checks").some_rows

    assert [row.input_ids[0] for row in some_rows(rows_of(*lengths), most)] == chosen


def test_looking_at_a_model_leaves_it_as_it_was() -> None:
    """C23: modes, also mixed ones, gradients, and the random numbers that come next."""
    torch = import_module("torch")
    untouched = import_module("engine.worker.trl.checks").untouched
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(4, 4))
    model[1].eval()
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(3), random.random()
    torch.manual_seed(1)
    random.seed(1)

    with untouched(model):
        assert not model[0].training
        model(torch.rand(2, 4))
        random.random()

    assert [each.training for each in model.modules()] == [True, True, False]
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(torch.rand(3), expected[0])
    assert random.random() == expected[1]


@pytest.mark.parametrize(
    ("stated", "made", "planned"),
    [
        # 10 updates, saved after 4, 8 and 10: 3 weights, 2 states, and one of both being written
        ({}, 0, 3 * 100 + 2 * 1000 + 1100),
        ({"keepWeights": 1, "keepTrainingState": 1}, 0, 100 + 1000 + 1100),
        # state after 8 and 10 alone
        ({"resumableSaveEvery": 8, "keepTrainingState": 5}, 0, 3 * 100 + 2 * 1000 + 1100),
        # only the last one is to come
        ({}, 8, 100 + 1000 + 1100),
    ],
)
def test_the_planned_room_is_what_is_kept_and_one_being_written(
    stated: dict[str, int], made: int, planned: int
) -> None:
    """I19: 100 bytes of weights and 1,000 of training state each."""
    room = import_module("engine.worker.trl.room")
    execution = Execution.model_validate({"saveEvery": 4} | stated)

    assert room.planned_bytes(execution, room.Sizes(100, 1000), made=made, total=10) == planned


def test_the_updates_of_a_run_follow_from_rows_and_epochs() -> None:
    """C15: rounded up an epoch, as the trainer does."""
    room = import_module("engine.worker.trl.room")
    config = Config.model_validate({"epochs": 1.5, "sequencesPerUpdate": 4})

    assert room.total_steps(config, 7) == 3
    assert room.total_steps(Config.model_validate({"maxSteps": 9}), 7) == 9


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(3400, "passed"), (3399, "warned"), (1200, "warned"), (1199, "refused"), (0, "refused")],
)
def test_a_disk_with_too_little_room_warns_and_one_without_any_refuses(
    tmp_path: Path, free: int, verdict: str
) -> None:
    """I19: 3,400 bytes are planned; one save and the model need 1,200 in any case."""
    room, client = import_module("engine.worker.trl.room"), import_module("engine.client")
    run = import_module("engine.worker.trl.checks").run
    found = room.compare(tmp_path, room.Sizes(100, 1000), free=free, planned=3400)
    reporter = client.Reporter(tmp_path / "spool.jsonl")

    if verdict == "refused":
        with pytest.raises(
            RefusalError, match=f"{free:,} bytes free, and its limit is 1,200; make"
        ):
            run(reporter, [lambda: found])
    else:
        run(reporter, [lambda: found])

    assert checks(said(tmp_path / "spool.jsonl"))["disk room"]["verdict"] == verdict


def test_the_estimate_of_a_snapshot_is_close_to_a_real_one(tmp_path: Path) -> None:
    """I19: adapter, companions and two moments, within the fixed parts of the files."""
    torch, room = import_module("torch"), import_module("engine.worker.trl.room")
    frozen, trained = torch.nn.Linear(300, 300), torch.nn.Linear(300, 200, bias=False)
    frozen.requires_grad_(False)
    optimizer = torch.optim.AdamW(trained.parameters())
    trained(torch.ones(300)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")

    sizes = room.sizes([*frozen.parameters(), *trained.parameters()], [b"12345"])

    assert sizes.weights == 300 * 200 * 4 + 5
    assert sizes.training_state == pytest.approx(
        (tmp_path / "optimizer.pt").stat().st_size, abs=20_000
    )
