"""Start checks as analysts read them: one row of each, of every attempt."""

import math
from datetime import timedelta

from projections.warehouse import Warehouse
from tests import make

ROWS = """
SELECT attempt, name, value, warn_limit, refuse_limit, unit, seconds, verdict, checked_at
FROM start_checks ORDER BY position
"""


def test_each_check_of_each_attempt_is_a_row_with_its_limits() -> None:
    """S15, I19: name, value, warn limit, refuse limit, seconds; a later attempt checks again."""
    warned = make.start_checked(
        "lossBefore", 11.5, warn_limit=11.25, refuse_limit=45.0, seconds=0.75, verdict="warned"
    )
    disk = {"warn_limit": 3e9, "refuse_limit": 1e9, "unit": "bytes", "seconds": 0.001}
    again = make.start_checked("disk", 4e9, attempt=2, **disk)
    history = make.History(
        make.training(),
        warned,
        make.start_checked("disk", 5e9, **disk),
        make.lost(1),
        make.retried(2, step=0),
        again,
    )
    warehouse = Warehouse(":memory:")
    warehouse.apply(history.events)
    warehouse.make_views()

    with warehouse.read() as cursor:
        *rows, last = cursor.execute(ROWS).fetchall()

    at = make.START + timedelta(seconds=8)  # each event is a second after the one before it
    assert rows == [
        (1, "lossBefore", 11.5, 11.25, 45.0, None, 0.75, "warned", at),
        (1, "disk", 5e9, 3e9, 1e9, "bytes", 0.001, "passed", at + timedelta(seconds=1)),
    ]
    assert last[:-1] == (2, "disk", 4e9, 3e9, 1e9, "bytes", 0.001, "passed")
    warehouse.close()


def test_a_value_that_is_no_number_stays_what_it_is() -> None:
    """U11: a loss that overflowed before the training is infinite, not absent."""
    lost = make.start_checked("lossBefore", math.nan, verdict="refused", refuse_limit=math.inf)
    warehouse = Warehouse(":memory:")
    warehouse.apply(make.History(make.training(), lost).events)
    warehouse.make_views()

    with warehouse.read() as cursor:
        ((value, limit),) = cursor.execute(
            "SELECT value, refuse_limit FROM start_checks"
        ).fetchall()

    assert math.isnan(value)
    assert limit == math.inf
    warehouse.close()
