"""Events as rows: who, when, what, and what is nobody's business."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ledger.events import EVENTS
from projections.warehouse import Warehouse
from projections.wire import kind_of
from tests import make

CHILD = "00000000000000c1"


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    warehouse = Warehouse(":memory:")
    warehouse.make_views()
    yield warehouse
    warehouse.close()


def select(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with warehouse.read() as cursor:
        return cursor.execute(query).fetchall()


def payloads(warehouse: Warehouse) -> dict[str, Any]:
    """By kind, what each event says."""
    found = select(warehouse, "SELECT kind, payload FROM event ORDER BY position")
    return {kind: json.loads(payload) for kind, payload in found}


def test_a_payload_has_the_names_of_the_streams_and_no_secret(warehouse: Warehouse) -> None:
    """docs/events.md; the digest of an attempt's token stays in the ledger."""
    source = make.origin("20", 20)
    warehouse.apply(
        make.recorded(
            make.submitted(CHILD, origin=source),
            make.opened(1, CHILD, devices=["cuda:0"], snapshot_id="ab"),
            make.closed(1, CHILD, last_sign=1.5, signal=9),
        )
    )

    told = payloads(warehouse)

    assert told["attemptOpened"] == {
        "attempt": 1,
        "devices": ["cuda:0"],
        "launcher": "local",
        "snapshotId": "ab",
    }
    assert told["runSubmitted"]["origin"] == {
        "parent": make.RUN,
        "snapshotId": make.snapshot_id("20"),
        "step": 20,
        "restore": "weights",
    }
    assert told["attemptClosed"]["lastSignAt"] == "2026-12-01T08:00:01.500000Z"
    assert told["attemptClosed"]["signal"] == 9
    assert "tokenSha256" not in told["attemptOpened"]


def test_an_event_of_a_later_version_is_a_row_that_tells_no_time(warehouse: Warehouse) -> None:
    warehouse.apply(make.recorded(make.training(), make.unknown(), make.steps(1)))

    assert select(
        warehouse,
        "SELECT topic, kind, run_id, happened_at, principal, payload FROM events"
        " WHERE kind = 'unknownEvent'",
    ) == [("run.dreamt.v1", "unknownEvent", make.RUN, None, None, "{}")]


def test_numbers_that_are_not_finite_are_strings_in_a_payload(warehouse: Warehouse) -> None:
    """C35."""
    warehouse.apply(
        make.recorded(make.training(), make.hparams({"lr": float("inf"), "损失": float("nan")}))
    )

    assert payloads(warehouse)["hparamsResolved"] == {"values": {"lr": "Infinity", "损失": "NaN"}}


def test_events_of_no_run_have_none(warehouse: Warehouse) -> None:
    source = make.origin("20", 20)
    warehouse.apply(
        make.recorded(make.submission("night-8", make.RUN), make.snapshot_held(source, CHILD))
    )

    assert select(warehouse, "SELECT stream, run_id, kind FROM events ORDER BY position") == [
        ("submission/night-8", None, "submissionAccepted"),
        (f"snapshot/{source.snapshot_id}", None, "snapshotHeld"),
    ]


def test_every_kind_that_views_look_for_is_one_that_there_is(warehouse: Warehouse) -> None:
    """A kind that is renamed would silently be missing."""
    kinds = {kind_of(event) for event in EVENTS}
    (sql,) = select(
        warehouse,
        "SELECT string_agg(sql, ' ') FROM duckdb_views() WHERE NOT internal",
    )

    named = set(re.findall(r"'([a-z]+[A-Z]\w+)'", sql[0]))

    members = {
        "trainingState",
        "snapshotId",
        "sizeBytes",
        "warnLimit",
        "refuseLimit",
    }  # of payloads
    assert named - members <= kinds
    assert "snapshotCommitted" in named
