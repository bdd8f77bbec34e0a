"""Preparations in the record of a run and in the warehouse: before devices, and without cost."""

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.events import Recorded
from ledger.store.sqlite import Database
from projections.documents import Documents
from projections.warehouse import Warehouse
from tests import make
from tests.make import Made

KILLED = {
    "outcome": "failed",
    "code": "not-prepared",
    "end_class": "infrastructure",
    "reason": "this run’s rows could not be prepared",
    "may_retry": True,
    "signal": 9,
}


def submitted() -> Made:
    return make.submitted(at=0, engine="trl", execution={"devices": 2})


def begun() -> list[Made]:
    """A run whose rows are tokenised since the fifth second."""
    return [
        submitted(),
        make.phase("PREPARING", at=2),
        make.preparation_opened(at=2),
        make.by_preparation(make.stage("tokenizing", 0, 600, at=5)),
    ]


def prepared() -> list[Made]:
    """A run that is prepared for eight seconds, waits, is queued, and prepares again."""
    return [
        *begun(),
        make.by_preparation(make.stage("tokenizing", 600, 600, at=8)),
        make.by_preparation(make.stage("caching the tokenised rows", at=9)),
        make.preparation_closed(at=10),
        make.phase("WAITING", at=10),
        make.opened(at=13, devices=("cuda:0", "cuda:1")),
        make.phase("QUEUED", at=13),
        make.started(at=14),
        make.phase("PREPARING", at=14),
        make.stage("reading rows", at=15),
    ]


def record(*made: Made) -> dict[str, Any]:
    documents = Documents(Database(":memory:"), make.History(*made))
    documents.apply(make.recorded(*made))
    found = documents.get(make.RUN)
    assert found is not None
    return found


def test_a_record_has_two_visits_of_preparing_and_their_sum() -> None:
    """D3: the first holds no devices, the second does."""
    timing = record(*prepared(), make.began(at=20), make.phase("TRAINING", at=20))["timing"]

    assert [(each["phase"], each["millis"]) for each in timing["visits"]] == [
        ("SUBMITTED", 2000),
        ("PREPARING", 8000),
        ("WAITING", 3000),
        ("QUEUED", 1000),
        ("PREPARING", 6000),
        ("TRAINING", 0),
    ]
    assert timing["phaseMillis"]["PREPARING"] == 14_000
    assert timing["split"]["preparingMillis"] == 14_000


def test_a_preparation_costs_no_device_time_and_its_own_is_told_apart() -> None:
    """S30, S44, D12: 0 device seconds so far, 8 of the host; then the devices are held."""
    before = record(*begun())
    after = record(*prepared(), make.closed(at=23, last_sign=23))

    assert before["cost"]["deviceSeconds"] == 0
    assert (before["attempts"], before["cost"]["deviceKind"]) == ([], None)
    (preparation,) = after["preparations"]
    assert (preparation["hostSeconds"], preparation["outcome"]) == (8.0, "completed")
    assert after["cost"]["deviceSeconds"] == 20.0  # 2 devices for 10 seconds
    assert [each["attempt"] for each in after["attempts"]] == [1]


def test_the_stage_is_never_empty_while_a_run_is_preparing() -> None:
    """S32, S33, S34: from the first wait on; rows where they are counted, none while caching."""
    waits = make.phase("PREPARING", at=1, waiting_for="its turn to be prepared, after run x")
    told: list[Made] = [submitted(), waits, *begun()[1:], *prepared()[4:]]

    stages = [record(*told[: n + 1])["stage"] for n in range(1, 7)]

    assert [None if each is None else tuple(each.values()) for each in stages] == [
        ("waiting to be prepared", None, None),
        ("starting the worker", None, None),
        ("starting the worker", None, None),
        ("tokenizing", 0, 600),
        ("tokenizing", 600, 600),
        ("caching the tokenised rows", None, None),
    ]
    assert record(*prepared()[:-1])["stage"]["name"] == "starting the worker"


def test_what_a_preparation_waits_for_is_told_until_it_begins() -> None:
    """S31."""
    because = "its turn to be prepared, after run x"
    waits = [submitted(), make.phase("PREPARING", at=1, waiting_for=because)]

    assert record(*waits)["waitingFor"] == because
    assert record(*waits, *begun()[1:])["waitingFor"] is None
    assert record(*waits, *begun()[1:])["timing"]["phaseMillis"]["PREPARING"] == 4000


def test_a_preparation_that_was_killed_lived_until_its_last_sign() -> None:
    """U4: it says why it ended, and how many of its lines were no reports."""
    killed = record(
        *begun(),
        make.by_preparation(make.rejected("no JSON", at=6)),
        make.preparation_closed(at=70, last_sign=7, **KILLED),
    )

    (preparation,) = killed["preparations"]
    assert preparation["hostSeconds"] == 5.0
    assert (preparation["code"], preparation["signal"]) == ("not-prepared", 9)
    assert (preparation["rejectedLines"], preparation["rejections"]) == (1, ["no JSON"])


def test_a_run_that_is_refused_ahead_costs_nothing_for_certain() -> None:
    """S66, S68: 0 device seconds, which is no estimate."""
    refused = {"outcome": "failed", "code": "refused", "end_class": "input"}
    sentence = "an example ends with a user message"

    told = record(
        *begun(),
        make.preparation_closed(at=9, reason=sentence, **refused),
        make.failed(at=9, code="refused", end_class="input", reason=sentence),
    )

    assert (told["cost"]["deviceSeconds"], told["cost"]["estimate"]) == (0, False)
    assert (told["stage"], told["failure"]["reason"]) == (None, sentence)


# -- the warehouse


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


def select(warehouse: Warehouse, query: str, history: list[Recorded]) -> list[tuple[Any, ...]]:
    warehouse.apply(history)
    with warehouse.read() as cursor:
        return cursor.execute(query).fetchall()


def test_analysts_see_both_phases_and_whose_stages_they_were(warehouse: Warehouse) -> None:
    """D3, D12: a stage of a preparation is of no attempt, and ends with the preparation."""
    query = "SELECT attempt, stage, seconds, completed FROM stages ORDER BY position"

    stages = select(warehouse, query, make.recorded(*prepared()))

    assert stages == [
        (None, "tokenizing", 4.0, 600),
        (None, "caching the tokenised rows", 1.0, None),
        (1, "reading rows", None, None),
    ]


def test_analysts_see_the_time_of_each_visit(warehouse: Warehouse) -> None:
    """D3: and the sum of it, as the record has it."""
    made = [*prepared(), make.began(at=20), make.phase("TRAINING", at=20)]
    warehouse.apply(make.recorded(*made))

    visits = select(warehouse, "SELECT phase, seconds FROM phases ORDER BY position", [])
    (sums,) = select(warehouse, "SELECT preparing_seconds, waiting_seconds FROM run_timing", [])

    assert visits[1:5] == [
        ("PREPARING", 8.0),
        ("WAITING", 3.0),
        ("QUEUED", 1.0),
        ("PREPARING", 6.0),
    ]
    assert sums == (14.0, 3.0)
