"""The published schema of a record has every member of every record, and says what each means."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from api.prices import Price, money
from ledger import events, histories, imports
from ledger.ledger import Ledger
from ledger.store.memory import MemoryRecorder
from ledger.store.sqlite import Database
from projections import wire
from projections.documents import Documents
from projections.documents.schema import record_schema
from tests import ledgers, make
from tests.answers import RECORD
from tests.make import moment
from tests.property.histories import families, histories as any_histories

Json = dict[str, Any]
SCHEMA = record_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
PRICE = {"profile": "cpu", "currency": "EUR", "perHour": 1, "from": moment(-1)}
DIGEST = "ab" * 32
PRICES = [Price.model_validate(PRICE)]
OUT_OF_MEMORY = "the training job ran out of device memory"


def served(record: Json) -> Json:
    """The record as the service answers it."""
    cost = record["cost"] | {"money": money(record, PRICES)}
    return record | {"cost": cost, "liveness": {"verdict": "ended"}, "asOf": None}


def faults(record: Json) -> list[str]:
    """What the schema has against a record."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(record)]


def records(source: Any, runs: list[str]) -> Iterator[Json]:
    documents = Documents(Database(":memory:"), source)
    documents.apply(source.read(0, 100_000))
    for run in runs:
        found = documents.get(run)
        assert found is not None
        yield served(found)


def of(*made: make.Made) -> Json:
    """The record of a run with this history."""
    return next(records(make.History(*made), [make.RUN]))


BEGUN = [make.submitted(at=0, config={"maxSteps": 4}), make.phase("QUEUED"), make.opened()]
TYPICAL: dict[str, list[make.Made]] = {
    "submitted": [make.submitted(at=0)],
    "waiting": [make.submitted(at=0), make.phase("WAITING", waiting_for="a device")],
    "queued": [*BEGUN],
    "preparing": [
        *BEGUN,
        make.started(),
        make.phase("PREPARING"),
        make.stage("reading rows", 3, 9),
    ],
    "training": [
        *BEGUN,
        make.began(4),
        make.phase("TRAINING"),
        make.step(1, loss=float("nan"), grad_norm=float("inf")),
        make.validation(1, eval_loss=900.0),
    ],
    "pausing": [
        *BEGUN,
        make.phase("TRAINING"),
        make.step(1),
        make.pause_requested(),
        make.phase("PAUSING"),
    ],
    "failed": [
        *BEGUN,
        make.phase("TRAINING"),
        make.step(1),
        make.closed(outcome="failed", end_class="resource", reason=OUT_OF_MEMORY),
        make.failed(reason=OUT_OF_MEMORY),
    ],
}


@pytest.mark.parametrize("name", TYPICAL)
def test_a_record_has_the_members_that_are_published(name: str) -> None:
    """U17, D8: in every phase, with numbers that are not finite."""
    assert faults(of(*TYPICAL[name])) == []


@pytest.mark.parametrize("is_timed", [True, False])
def test_the_record_of_an_imported_run_is_as_published(*, is_timed: bool) -> None:
    """U17, C34: with and without times; what is not known is null."""
    ledger = Ledger(MemoryRecorder(), clock=ledgers.ticking())
    at = ', "at": 1.5' if is_timed else ""
    source = f'"source": "csv", "file": "a.csv", "sha256": "{DIGEST}", "totalSteps": 9'
    lines = [
        f'{{"kind": "source", {source}, "isComplete": false, "hyperparameters": {{"a": 1}}}}',
        f'{{"kind": "step", "step": 0, "measured": {{"loss": 2}}{at}}}',
    ]
    made = imports.take(ledger, histories.read(lines), principal="tester")

    (record,) = records(ledger, [made.submission.run_id])

    assert faults(record) == []
    assert record["imported"]["isTimed"] is is_timed


@given(any_histories() | families())
def test_no_history_makes_a_record_that_is_not_published(history: list[events.Recorded]) -> None:
    """U17, S61: attempts, restores, snapshots, branches and pauses in any order."""
    source = make.History()
    source.events = history
    runs = [each.event.run_id for each in history if isinstance(each.event, events.RunSubmitted)]

    for record in records(source, list(runs)):
        assert faults(record | {"runId": make.RUN}) == []


def test_a_member_that_is_not_published_is_a_fault() -> None:
    """U17: at any depth."""
    record = of(*TYPICAL["failed"])
    record["attempts"][0]["colour"] = "red"
    record["timing"]["split"]["lunchMillis"] = 1

    found = faults(record)

    assert len(found) == 2
    assert all("Additional properties are not allowed" in each for each in found)


def test_every_member_says_what_it_means() -> None:
    """U17: with the unit where it has one."""
    nodes = list(_members(SCHEMA))

    assert len(nodes) > 200
    assert [path for path, node in nodes if not node.get("description")] == []
    for path, node in nodes:
        name = path.rpartition(".")[2]
        for ending, unit in (("Millis", "illi"), ("Bytes", "ytes"), ("Seconds", "econds")):
            if name.endswith(ending):
                assert unit in node["description"], path


def test_the_schema_and_the_page_on_http_have_the_same_members() -> None:
    """D8."""
    assert set(SCHEMA["properties"]) == set(RECORD)


def _members(node: Any, path: str = "$") -> Iterator[tuple[str, Json]]:
    if not isinstance(node, dict):
        return
    for name, member in node.get("properties", {}).items():
        yield f"{path}.{name}", member
        yield from _members(member, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        yield from _members(node.get(key), f"{path}[]")


def test_times_and_numbers_are_of_the_published_forms() -> None:
    """C35: a number that is not finite is its name, a time is in UTC."""
    definitions = SCHEMA["$defs"]

    number = Draft202012Validator(definitions["number"])
    time = Draft202012Validator(definitions["moment"])

    assert all(number.is_valid(wire.number(each)) for each in (1.5, float("nan"), float("-inf")))
    assert not number.is_valid("1.5")
    assert time.is_valid(wire.moment(0))
    assert not time.is_valid("1970-01-01 00:00")
