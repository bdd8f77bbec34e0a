"""A run can be read whenever somebody asks, and says what it was started with for ever."""

from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator

from cli.render.run import detail
from ledger import plan
from ledger.run import Phase
from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.documents.schema import record_schema
from tests import ledgers, make

AT_WORK = [
    make.submitted(at=0, config={"maxSteps": 4}),
    make.opened(),
    make.phase("QUEUED"),
    make.started(),
    make.phase("PREPARING"),
]
TRAINED = [*AT_WORK, make.phase("TRAINING"), make.began(4), make.step(1, loss=2.0)]
HISTORIES: dict[Phase, list[make.Made]] = {
    Phase.SUBMITTED: AT_WORK[:1],
    Phase.WAITING: [*AT_WORK[:1], make.phase("WAITING", waiting_for="1 device")],
    Phase.QUEUED: AT_WORK[:3],
    Phase.PREPARING: AT_WORK,
    Phase.TRAINING: TRAINED,
    Phase.PAUSING: [*TRAINED, make.pause_requested(), make.phase("PAUSING")],
    Phase.PAUSED: [
        *TRAINED,
        make.pause_requested(),
        make.phase("PAUSING"),
        make.closed(outcome="paused", end_class="stopped"),
        make.phase("PAUSED"),
    ],
    Phase.CANCELLING: [*TRAINED, make.cancel_requested(), make.phase("CANCELLING")],
    Phase.CANCELLED: [*TRAINED, make.cancel_requested(), make.closed(), make.cancelled()],
    Phase.COMPLETED: [*TRAINED, make.closed(), make.completed()],
    Phase.FAILED: [*TRAINED, make.closed(), make.failed()],
}

UNTRAINED = {Phase.SUBMITTED, Phase.WAITING, Phase.QUEUED, Phase.PREPARING}


@pytest.mark.parametrize("phase", Phase)
def test_a_run_is_read_in_each_of_its_phases(phase: Phase) -> None:
    """S1, S2, S3, S8, S21, D8: three parts, the phase, a record as published, at 80 columns."""
    history = make.History(*HISTORIES[phase])
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.read(0, 100))
    record = (documents.get(make.RUN) or {}) | {"liveness": {"verdict": "ended"}, "asOf": None}
    record["cost"] |= {"money": None}

    shown = detail(record, width=80, with_settings=False)

    assert [line for line in shown.split("\n") if line[:1].isalpha()] == [
        "State",
        "Results",
        "Cost",
    ]
    assert f"\n  Run               {make.RUN}\n" in shown
    assert f"\n  Phase             {phase}" in shown
    assert ("  Failure           " in shown) == (phase is Phase.FAILED)
    assert ("last loss 2" in shown) == (phase not in UNTRAINED)
    assert max(map(len, shown.split("\n"))) <= 80
    assert list(Draft202012Validator(record_schema()).iter_errors(record)) == []


@pytest.fixture
def other_default() -> Iterator[None]:
    """A later version of the product, whose default learning rate is another."""
    field = plan.Config.model_fields["learning_rate"]
    old = field.default

    def be(value: float) -> None:
        field.default = value
        for model in (plan.Config, plan.Plan):
            model.model_rebuild(force=True)

    be(0.5)
    yield
    be(old)


def test_a_default_that_changes_later_rewrites_no_old_run(request: pytest.FixtureRequest) -> None:
    """S20: of two equal plans, each run keeps the value that it was started with."""
    ledger = ledgers.ledger()
    old = ledgers.submit(ledger, config={"seed": 7})
    request.getfixturevalue("other_default")
    new = ledgers.submit(ledger, config={"seed": 7})

    documents = Documents(Database(":memory:"), ledger)  # made anew by the later version
    documents.apply(ledger.read(0, 100))

    rates = []
    for run_id in (old, new):
        record = documents.get(run_id) or {}
        rates.append(record["settings"]["configuration"]["learningRate"])
        assert "config.learningRate" not in record["stated"]
    assert rates == [2.0e-4, 0.5]
