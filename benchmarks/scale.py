"""A run of a million steps: to check its events, to make everything anew, to look back."""

from pathlib import Path
from random import Random

from api.service import utc_now
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99, timed
from benchmarks.verify import read
from ledger import audit
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder
from projections.documents import Documents
from projections.replay import DOCUMENTS, WAREHOUSE, build
from projections.warehouse import Warehouse
from projections.warehouse.publish import publish

LOOKS = 60  # at moments all over the run
FLOORS = 5
MILLI = 1e3


def measure(place: Place) -> Result:
    """Each in turns with nothing: it takes so long that the floor beside it is read five times."""
    run = place.million
    run.home.down()
    folder = place.folder / "scale"
    folder.mkdir()
    path = run.ledger
    database = Database(path)
    try:
        ledger = Ledger(SQLiteRecorder(database), clock=utc_now)
        events = ledger.position()
        floor = p50([timed(lambda: read(path)) for _ in range(FLOORS)])
        check = timed(lambda: audit.verify(ledger))
        rebuild = timed(lambda: build(ledger, folder, events, ledger=path))
        copy = timed(lambda: _publish(folder))
        looks = _looks(folder, ledger, run.run_id)
    finally:
        database.close()
    return Result(
        [
            Figure("events checked, all", check, "s", floor, most=15.0),
            Figure("the same in a second", events / check, "events/s", least=100_000.0),
            Figure("both projections made anew", rebuild, "s", floor, most=60.0),
            Figure("published copy", copy, "s", floor, most=1.0),
            Figure("record as of a moment, p50", p50(looks) * MILLI, "ms", floor * MILLI),
            Figure("record as of a moment, p99", p99(looks) * MILLI, "ms", most=200.0),
        ],
        f"a run of {place.steps:,} steps that went back once; floor: a cursor over all its events",
    )


def _publish(folder: Path) -> None:
    warehouse = Warehouse(folder / WAREHOUSE)
    try:
        publish(warehouse, folder / "analytics.duckdb")
    finally:
        warehouse.close()


def _looks(folder: Path, ledger: Ledger, run_id: str) -> list[float]:
    """Seconds of records as of moments anywhere in the life of the run."""
    chance = Random(0)
    database = Database(folder / DOCUMENTS)
    try:
        documents = Documents(database, ledger)
        moments = [chance.randint(2, ledger.position()) for _ in range(LOOKS)]
        return [timed(lambda at=at: documents.get(run_id, upto=at)) for at in moments]  # type: ignore[misc]
    finally:
        database.close()
