"""Branches for analysts: rows that are only ever added, and what they say together."""

from collections.abc import Iterator
from typing import Any

import pytest

from projections.digest import config_sha256
from projections.warehouse import Warehouse
from tests import make

CHILD = "00000000000000c1"
OTHER = "00000000000000c2"
SOURCE = make.origin("20", 20, restore="trainingState")


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


def select(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with warehouse.read() as cursor:
        return cursor.execute(query).fetchall()


def test_a_branch_is_one_row_with_its_newest_state(warehouse: Warehouse) -> None:
    """I12: requested, source held, created."""
    requested = make.branch_requested(
        CHILD, SOURCE, 7, at=90, config_name="lower rate", description="half of it"
    )
    later = [make.source_held(CHILD), make.branch_created(CHILD, at=95)]

    warehouse.apply(make.recorded(make.training(), requested, later))

    assert select(warehouse, "SELECT * FROM branches") == [
        (
            9,
            make.token(CHILD),
            make.RUN,
            CHILD,
            make.snapshot_id("20"),
            20,
            "trainingState",
            7,
            "lower rate",
            "half of it",
            config_sha256(make.document(config={"maxSteps": 7})),
            make.moment(90),
            "created",
            make.moment(95),
            None,
            None,
        )
    ]
    assert select(warehouse, "SELECT position, token, state FROM branch_state ORDER BY 1") == [
        (9, make.token(CHILD), "requested"),
        (10, make.token(CHILD), "preparing"),
        (11, make.token(CHILD), "created"),
    ]


def test_a_refused_branch_says_why(warehouse: Warehouse) -> None:
    warehouse.apply(
        make.recorded(
            make.training(),
            make.branch_requested(CHILD, SOURCE),
            make.branch_refused(CHILD, "the source is damaged", at=95),
            make.branch_requested(OTHER, SOURCE),
        )
    )

    found = select(
        warehouse,
        "SELECT child, state, decided_at, reason, advice FROM branches ORDER BY position",
    )

    assert found == [
        (CHILD, "refused", make.moment(95), "the source is damaged", "take another snapshot"),
        (OTHER, "requested", None, None, None),
    ]


def test_a_child_joins_its_parent(warehouse: Warehouse) -> None:
    """S138: a run of its own among the others."""
    warehouse.apply(make.recorded(make.training(), make.branched(CHILD, SOURCE)))

    found = select(
        warehouse,
        "SELECT r.run_id, r.phase, b.parent FROM runs AS r"
        " LEFT JOIN branches AS b ON b.child = r.run_id ORDER BY r.run_id",
    )

    assert found == [(make.RUN, "TRAINING", None), (CHILD, "SUBMITTED", make.RUN)]
