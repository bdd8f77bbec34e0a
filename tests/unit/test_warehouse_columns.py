"""Updates on their way into the table ``metric``, as columns."""

from ledger.events import Recorded
from projections.warehouse import Warehouse
from tests import make

NUMBERS = (
    {"loss": 0.5, "entropy": 1.5, "reward": -2.0},
    {"loss": float("nan"), "entropy": float("-inf")},
    {"grad_norm": float("inf"), "损失": 1e300},
    {},
)


def rows(events: list[Recorded], size: int) -> list[str]:
    """Every row of the table after batches of so many events; as text, in which NaN equals NaN."""
    warehouse = Warehouse(":memory:")
    try:
        for first in range(0, len(events), size):
            warehouse.apply(events[first : first + size])
        with warehouse.read() as cursor:
            found = cursor.execute("SELECT * FROM metric ORDER BY position").fetchall()
    finally:
        warehouse.close()
    return [repr(row) for row in found]


def test_steps_are_the_same_rows_one_by_one_and_many_at_once() -> None:
    """U11, C35: numbers that are not finite too, and those that are absent stay absent."""
    terms = [None, {"format": 0.25}, {}]
    steps = [
        make.step(number, measured=NUMBERS[number % 4], reward_terms=terms[number % 3])
        for number in range(1, 25)
    ]
    history = make.History(make.training(), steps).events

    many, few, single = (rows(history, size) for size in (len(history), 7, 1))

    assert len(many) == 24
    assert many == few == single
