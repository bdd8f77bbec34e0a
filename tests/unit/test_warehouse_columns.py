"""Updates and rollouts on their way into their tables, as columns."""

from ledger.events import Recorded
from projections.warehouse import Warehouse
from tests import make

NUMBERS = (
    {"loss": 0.5, "entropy": 1.5, "reward": -2.0},
    {"loss": float("nan"), "entropy": float("-inf")},
    {"grad_norm": float("inf"), "损失": 1e300},
    {},
)


def rows(events: list[Recorded], size: int, table: str = "metric") -> list[str]:
    """Every row of the table after batches of so many events; as text, in which NaN equals NaN."""
    warehouse = Warehouse(":memory:")
    try:
        for first in range(0, len(events), size):
            warehouse.apply(events[first : first + size])
        with warehouse.read() as cursor:
            found = cursor.execute(f"FROM {table} ORDER BY ALL").fetchall()
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


def test_rollouts_are_the_same_rows_one_by_one_and_many_at_once() -> None:
    """S125, C35: texts of any script, messages, and scores that are no number."""
    chat = [{"role": "user", "content": "Why?\u0000 \u2028"}]
    every = [
        make.rollout(0.5, prompt="", completion="слово 词 🙂"),
        make.rollout(float("nan"), prompt=chat, terms={"format": float("-inf"), "损失": 1e300}),
        make.rollout(1.0, completion=chat, terms={}),
    ]
    scored = [make.scored(step, *every[: 1 + step % 3]) for step in range(1, 13)]
    history = make.recorded(make.submitted(), scored)

    many, few, single = (rows(history, size, "rollout") for size in (len(history), 5, 1))

    assert len(many) == 24
    assert many == few == single
