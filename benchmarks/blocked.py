"""How long a report holds up the training loop, with the server there and with it away."""

import json

from benchmarks.home import Home, until
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, p99

ROUNDS = 10
MICRO = 1e6


def measure(place: Place) -> Result:
    """Times of calls inside a trainer of a real run, in turns with a plain write and flush."""
    figures = []
    for away in (False, True):
        rounds = _rounds(place.home, away=away)
        state = "server down" if away else "server up"
        for name, quantile in (("p50", p50), ("p99", p99)):
            ours, floor = (
                p50([quantile(each[who]) for each in rounds]) * MICRO for who in ("ours", "floor")
            )
            figures.append(
                Figure(
                    f"report call, {state}, {name}",
                    ours,
                    "us",
                    floor,
                    most_ratio=1.5 if name == "p50" else None,
                    most=100.0 if name == "p99" else None,
                )
            )
    return Result(figures, "floor: json.dumps of the 12 numbers, write and flush of a plain file")


def _rounds(home: Home, *, away: bool) -> list[dict[str, list[float]]]:
    """What the trainer measured, without the first round, which warms up."""
    run_id = home.start("timed", ROUNDS + 1)
    until(lambda: home.record(run_id)["phase"] == "TRAINING")
    if away:
        home.down()
    (home.output(run_id) / "go").touch()
    times = home.output(run_id) / "times.json"
    until(times.exists)
    home.up()
    home.ended(run_id)
    rounds: list[dict[str, list[float]]] = json.loads(times.read_text())
    return rounds[1:]
