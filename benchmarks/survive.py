"""Steps that a killed worker had reported, and that the ledger has."""

from itertools import pairwise
from random import Random

from benchmarks.home import Home
from benchmarks.place import Place
from benchmarks.result import Figure, Result

WORKERS = 25
STEPS = 250


def measure(place: Place) -> Result:
    """Kill workers straight after their last call of ``step`` returned."""
    shares = _shares(Random(7))
    runs = [place.home.start("die", steps) for steps in shares]
    there = sum(len(_in_the_ledger(place.home, run_id)) for run_id in runs)
    return Result(
        [Figure("steps that survive SIGKILL", there, "steps", STEPS, least=STEPS)],
        f"{WORKERS} workers, killed straight after step 1 to {max(shares)}; floor: calls that had"
        " returned",
    )


def _shares(random: Random) -> list[int]:
    """Steps of each worker, at least one, together all of them."""
    cuts = sorted(random.sample(range(1, STEPS), WORKERS - 1))
    return [after - before for before, after in pairwise([0, *cuts, STEPS])]


def _in_the_ledger(home: Home, run_id: str) -> set[int]:
    """The steps that the events of a run tell of, once it has ended by the signal."""
    (attempt,) = home.ended(run_id)["attempts"]
    assert attempt["signal"] == 9, attempt
    return {event["step"] for event in home.events(run_id) if event["kind"] == "stepReported"}
