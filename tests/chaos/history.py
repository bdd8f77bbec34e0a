"""One random history: a plan, and somebody who keeps disturbing the run until it has ended."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.world import ENDS, World, until

MEAN_PAUSE_SECONDS = 0.6  # between two disturbances
ENDING_SECONDS = 240.0  # within which an undisturbed run must end
REAL_UPDATES = 60  # ten epochs of 24 rows
ROLLOUTS = 2  # that the scripted trainer scores for each update


@dataclass
class History:
    """What was asked for, what was done to it, and what came of it."""

    seed: int
    updates: int
    is_scripted: bool
    run_id: str = ""
    done: list[str] = field(default_factory=list)
    was_cancelled: bool = False


def scripted(rng: Random, updates: int) -> list[dict[str, Any]]:
    """A trainer that saves now and then, is sometimes slow to start, and sometimes goes back."""
    pace = rng.choice((0.005, 0.01, 0.02))
    first = rng.randint(1, updates - 1)
    every = rng.choice((3, 5, 8, 100))
    scored = {"rollouts": ROLLOUTS}
    script: list[dict[str, Any]] = [
        {"stage": "reading rows", "completed": 0, "total": 10, "seconds": rng.choice((0, 0.2))},
        {"training": updates},
        {"steps": first, "seconds": pace, "saveEvery": every, **scored},
    ]
    if rng.random() < 0.3:
        back = rng.randint(0, first)
        script += (
            [{"restore": back}, {"steps": first - back, "seconds": pace, **scored}]
            if back < first
            else []
        )
    if rng.random() < 0.3:
        script.append({"partial": first})
    if rng.random() < 0.3:
        crash = rng.choice(("SIGKILL", "SIGTERM", "exit0"))
        script.append({"crash": crash, "attempt": rng.choice((1, 2))})
    script.append({"steps": updates - first, "seconds": pace, "saveEvery": every, **scored})
    script += [{"validation": updates}, {"snapshot": updates}, {"model": True}]
    return script


def simulated(rng: Random) -> tuple[dict[str, Any], int]:
    """A plan for the scripted trainer, and how many updates it makes."""
    updates = rng.randint(10, 120)
    plan = {
        "baseModel": "a base model",
        "dataset": "a data set",
        "config": {"maxSteps": updates, "seed": rng.randint(0, 9)},
        "engine": {"sim": scripted(rng, updates)},
        "execution": {
            "maxAttempts": 50,
            "stopGrace": "5s",
            "lease": "20s",
            "keepTrainingState": rng.choice((1, 2, 5)),
        },
    }
    return plan, updates


def trained(rng: Random, folder: Path) -> tuple[dict[str, Any], int]:
    """A plan for the real engine; every history trains the same, whatever happens to it."""
    plan = {
        "baseModel": str(folder / "tiny"),
        "dataset": str(folder / "rows.jsonl"),
        "validation": {"fraction": 0.2, "every": 20},
        "config": {
            "maxSteps": REAL_UPDATES,
            "sequencesPerUpdate": 4,
            "maxSeqLength": 96,
            "lora": {"rank": 4, "dropout": 0.1},
        },
        "execution": {
            "maxAttempts": 50,
            "stopGrace": "20s",
            "lease": "60s",
            "saveEvery": rng.choice((5, 7, 10)),
        },
    }
    return plan, REAL_UPDATES


def prepare(folder: Path) -> None:
    """Write the base model and the rows of the real engine into ``folder``."""
    folder.mkdir(parents=True)
    program = f"from tests import tiny_model; tiny_model.make({str(folder / 'tiny')!r})"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Where is parcel {n}?"},
                {"role": "assistant", "content": "on its way" if n % 2 else "lost"},
            ]
        }
        for n in range(30)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def play(world: World, history: History, plan: dict[str, Any], *, disturbances: int) -> None:
    """Submit the plan, disturb the run so often, and see it end."""
    rng = Random(history.seed)
    body = {"plan": plan, "submissionId": f"chaos-{history.seed}"}
    history.run_id = until(lambda: _asked(world, "/v1/runs", body))["runId"]
    for _ in range(rng.randint(0, disturbances)):
        if rng.random() < 0.5:
            _wait_for_update(world, history, rng.randint(0, history.updates))
        else:
            time.sleep(rng.expovariate(1 / MEAN_PAUSE_SECONDS))
        _disturb(world, history, rng)
    deadline = time.monotonic() + ENDING_SECONDS
    while (phase := _record(world, history)["phase"]) not in ENDS:
        assert time.monotonic() < deadline, f"{history} is {phase} for too long"
        if phase == "PAUSED":
            _act(world, history, "resume")
        time.sleep(0.1)


def _wait_for_update(world: World, history: History, update: int) -> None:
    """Wait until the run has made it, or does not train just now."""
    phases = ("SUBMITTED", "WAITING", "QUEUED", "PREPARING", "TRAINING")
    while (record := _record(world, history))["phase"] in phases:
        if record["observedStep"] >= update:
            return
        time.sleep(0.05)


def _disturb(world: World, history: History, rng: Random) -> None:
    name = rng.choices(list(ACTS), [weight for weight, _ in ACTS.values()])[0]
    ACTS[name][1](world, history)
    history.done.append(name)


def _freeze(world: World, history: History) -> None:
    if world.signal(history.run_id, "worker", signal.SIGSTOP):
        time.sleep(0.3)
        world.signal(history.run_id, "worker", signal.SIGCONT)


def _cancel(world: World, history: History) -> None:
    history.was_cancelled = True  # also where the answer is lost
    _act(world, history, "cancel")


def _act(world: World, history: History, verb: str, body: Any = None) -> None:
    """Ask for something. A lost answer or a refusal is part of life."""
    with suppress(OSError):
        world.post(f"/v1/runs/{history.run_id}:{verb}", body)


ACTS: dict[str, tuple[int, Callable[[World, History], object]]] = {
    "kill the worker": (30, lambda w, h: w.signal(h.run_id, "worker", signal.SIGKILL)),
    "kill the runner": (10, lambda w, h: w.signal(h.run_id, "runner", signal.SIGKILL)),
    "stop the worker": (10, lambda w, h: w.signal(h.run_id, "worker", signal.SIGTERM)),
    "freeze the worker": (5, _freeze),
    "pause": (15, lambda w, h: _act(w, h, "pause", {"checkpoint": "save"})),
    "pause as saved": (10, lambda w, h: _act(w, h, "pause", {"checkpoint": "latest"})),
    "resume": (15, lambda w, h: _act(w, h, "resume")),
    "cancel": (2, _cancel),
}  # with how often each is chosen


def _asked(world: World, path: str, body: Any) -> Any:
    try:
        return world.post(path, body)
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from None
    except OSError:
        return None


def _record(world: World, history: History) -> dict[str, Any]:
    record: dict[str, Any] = world.insist(f"/v1/runs/{history.run_id}")
    return record
