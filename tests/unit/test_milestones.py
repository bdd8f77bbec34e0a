"""Documents as they once were, and what is kept so that they need not be folded from zero."""

import zlib
from typing import Any

import orjson
import pytest

from ledger.events import Recorded
from ledger.store.sqlite import Database
from projections.compare import differences
from projections.documents import Documents
from projections.documents.milestones import EVENTS, POSITIONS
from projections.warehouse import Warehouse
from tests import make

OTHER = "00000000000000bb"
BEGUN = len(make.recorded(make.training()))  # events before the first step


class Watched(make.History):
    """A ledger that remembers what was read of runs: after which position, and how much."""

    def __init__(self, *made: make.Made) -> None:
        super().__init__(*made)
        self.reads: list[tuple[int, int]] = []

    def read_run(
        self, run_id: str, after: int, limit: int, upto: int | None = None
    ) -> list[Recorded]:
        found = super().read_run(run_id, after, limit, upto)
        self.reads.append((after, len(found)))
        return found


class Live:
    """The documents of a history, one delivery after the other."""

    def __init__(self, *made: make.Made) -> None:
        self.history = Watched(*made)
        self.database = Database(":memory:")
        self.documents = Documents(self.database, self.history)
        self.documents.apply(self.history.events)

    def add(self, *made: make.Made) -> None:
        self.documents.apply(self.history.add(*made))

    def record(self, upto: int) -> dict[str, Any]:
        """The record as of a position, and ``reads`` only what it took to make it."""
        self.history.reads.clear()
        record = self.documents.get(make.RUN, upto=upto)
        assert record is not None
        return record

    def milestones(self) -> list[int]:
        return list(self.documents.whole(make.RUN).milestones)


def test_a_document_is_kept_whenever_so_many_events_of_the_run_came() -> None:
    live = Live(make.training(), make.steps(3 * EVENTS))

    assert live.milestones() == [EVENTS, 2 * EVENTS, 3 * EVENTS]


def test_a_document_is_kept_when_so_many_events_of_others_came() -> None:
    """What is passed over costs as well; the document says nothing of the others."""
    live = Live(make.training(), make.step(1, loss=1.0))
    live.add(make.training(OTHER), make.steps(POSITIONS, run=OTHER))
    live.add(make.step(2, loss=2.0), make.step(3, loss=3.0))

    end = live.history.position()
    assert live.milestones() == [end - 2]
    assert live.record(end - 2)["latest"] == {"step": 1, "measured": {"loss": 1.0}}
    assert live.history.reads == []
    assert live.record(end - 1)["latest"] == {"step": 2, "measured": {"loss": 2.0}}
    assert live.history.reads == [(end - 2, 1)]


@pytest.mark.parametrize("step", [1, EVENTS - 1, EVENTS, EVENTS + 7, 2 * EVENTS + 5])
def test_an_earlier_record_takes_a_milestone_and_the_few_events_after_it(step: int) -> None:
    """S14, S26: 1 + 1/2 + ... + 1/step, and never more events than lie between two milestones."""
    losses = [make.step(n, loss=1 / n) for n in range(1, 3 * EVENTS)]
    live = Live(make.training(), losses)

    record = live.record(BEGUN + step)

    total = 0.0
    for n in range(1, step + 1):
        total += 1 / n
    loss = record["results"]["trainingLoss"]
    assert (record["observedStep"], loss["steps"]) == (step, step)
    assert (loss["first"], loss["last"], loss["mean"]) == (1.0, 1 / step, total / step)
    assert sum(count for _, count in live.history.reads) <= EVENTS
    assert min([after for after, _ in live.history.reads], default=0) == max(
        [each for each in live.milestones() if each <= BEGUN + step], default=0
    )


def test_a_restore_is_not_looked_back_from_again() -> None:
    """S86, D6: folding one reads the run from its begin, so the document after it is kept."""
    live = Live(make.training(), make.steps(EVENTS + 20))
    before = live.history.position()
    live.add(make.restored(10, attempt=1), make.steps(12, first=11))

    assert before + 1 in live.milestones()
    assert live.record(before)["observedStep"] == EVENTS + 20
    assert live.record(before + 1)["observedStep"] == 10
    assert live.record(before + 2)["observedStep"] == 11
    assert live.history.reads == [(before + 1, 1)]


def test_a_restore_reads_what_it_takes_back_and_not_the_whole_run() -> None:
    """S86, D6: from the newest document that had never been further than the restore goes back."""
    live = Live(make.training(), make.steps(4 * EVENTS))
    end = live.history.position()
    left = 3 * EVENTS + 60  # the third milestone knows no update beyond it

    live.history.reads.clear()
    live.add(make.restored(left, attempt=1), make.steps(left + 3, first=left + 1))

    read = end - 3 * EVENTS
    assert [each for each in live.history.reads if each[1]] == [(3 * EVENTS, read)]
    loss = live.record(live.history.position())["results"]["trainingLoss"]
    assert loss["steps"] == left + 3


def test_a_restore_that_goes_back_before_everything_that_was_kept_reads_the_run() -> None:
    """S86: a document that knows of updates beyond the restore is of no use for it."""
    live = Live(make.training(), make.steps(2 * EVENTS))
    end = live.history.position()
    live.history.reads.clear()

    live.add(make.restored(5, attempt=1))

    assert [each for each in live.history.reads if each[1]] == [(0, end)]
    assert live.record(end + 1)["results"]["trainingLoss"]["steps"] == 5


def test_what_a_run_would_have_gone_on_from_is_that_of_then() -> None:
    """S10, S27, I9: saved at 10, then at 20; damaged, superseded and swept only when they were."""
    live = Live(make.training(), make.steps(30), make.saved(10), make.saved(20))
    events = [
        make.damaged("20"),
        make.saved(30),
        make.restored(15, attempt=1),
        make.swept("10"),
        make.saved(15),
    ]
    expected = [20]
    moments = [live.history.position()]
    for each, step in zip(events, [10, 30, 10, None, 15], strict=True):
        live.add(each)
        moments.append(live.history.position())
        expected.append(step)  # type: ignore[arg-type]

    assert [live.record(each)["savedStep"] for each in moments] == expected
    assert live.record(moments[1] - 1)["saved"]["snapshotId"] == make.snapshot_id("20")


def test_a_run_is_not_there_before_its_submission() -> None:
    live = Live(make.training(OTHER), make.training())

    assert live.documents.get(make.RUN, upto=BEGUN) is None
    assert live.record(BEGUN + 1)["phase"] == "SUBMITTED"


def test_a_milestone_that_somebody_edited_is_found() -> None:
    """S1: what answers for the past is compared with the ledger as the rest is."""
    live = Live(make.training(), make.steps(EVENTS))
    warehouse = Warehouse(":memory:")
    warehouse.apply(live.history.events)
    whole = differences(live.history, live.documents, warehouse)
    with live.database.write() as connection:
        ((stored,),) = connection.execute("SELECT state FROM milestone").fetchall()
        state = orjson.loads(zlib.decompress(stored))
        forged = zlib.compress(orjson.dumps(state | {"observedStep": 7}))
        connection.execute("UPDATE milestone SET state = ?", (forged,))

    (found,) = differences(live.history, live.documents, warehouse)

    warehouse.close()
    assert whole == []
    assert found.detail == f"milestones.{EVENTS} differs from the ledger"
