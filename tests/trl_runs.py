"""Runs of the engine ``trl`` for tests: rows, plans, and a training here or in a real process.

``a_plan`` trains the tiny model on the CPU: 7 rows by 4 are 2 updates an epoch, the second of 3
rows; dropout is on, and every third update is validated.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from engine.client import Reporter
from engine.errors import StoppedError
from engine.prepare import settings
from engine.prepare.preparation import Means, prepare
from engine.worker.start import Start
from ledger import plan, reports

REPOSITORY = Path(__file__).resolve().parents[1]
WORKER = ("-m", "engine.worker.trl")
QUESTIONS = ("Where is my parcel?", "Where is it?", "Is it here?", "Where is my invoice?")

# The real worker, which sends itself a signal straight after it has reported an update.
SIGNALLED = """
import os, signal, sys
from engine.client import Reporter
report = Reporter.step
def step(self, number, measured, **others):
    report(self, number, measured, **others)
    if number == {step}:
        os.kill(os.getpid(), signal.{name})
Reporter.step = step
from engine.worker.trl.__main__ import main
sys.exit(main())
"""

Line = dict[str, Any]
Request = Literal["stop", "pause", "end"]
Branch = Literal["weights", "trainingState"]


def nothing_asked() -> Request | None:
    return None


def asking(spool: Path, request: Request, *, after: int) -> Callable[[], Request | None]:
    """Asks once update ``after`` was reported."""
    return lambda: request if f'"step":{after},"stepSeconds"' in spool.read_text() else None


def chat(*texts: str) -> dict[str, Any]:
    """A row in which user and assistant take turns, the user first."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": each} for i, each in enumerate(texts)]}


def write_rows(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in made))
    return path


def tiny_model(folder: Path) -> Path:
    """The tiny model, with the libraries set as the real workers here have them."""
    settings.prepare_libraries()
    import_module("torch").set_num_threads(1)  # sums in one order
    return Path(import_module("tests.tiny_model").make(folder))


def a_plan(tiny: Path, folder: Path) -> dict[str, Any]:
    """The plan, with its rows in ``folder``."""
    made = [chat(QUESTIONS[n % 4], f"It is on its way {n}.") for n in range(7)]
    return {
        "baseModel": str(tiny),
        "dataset": str(write_rows(folder / "rows.jsonl", made)),
        "validation": {"dataset": str(write_rows(folder / "kept.jsonl", made[:2])), "every": 3},
        "config": {
            "learningRate": 0.01,
            "maxSteps": 10,
            "sequencesPerUpdate": 4,
            "maxSeqLength": 80,
            "lora": {"rank": 4, "alpha": 8, "dropout": 0.2},
        },
        "execution": {"microBatchSequences": 2},
    }


def saving(document: dict[str, Any], **execution: int) -> dict[str, Any]:
    """The same plan, saved otherwise."""
    return document | {"execution": document["execution"] | execution}


def tuned(document: dict[str, Any], **config: Any) -> dict[str, Any]:
    """The same plan, with other numbers."""
    return document | {"config": document["config"] | config}


def copy(snapshot: Path, folder: Path) -> Path:
    """A copy that a worker may use up."""
    return Path(shutil.copytree(snapshot, folder / "restore"))


def worker(
    folder: Path,
    document: dict[str, Any],
    *,
    snapshot: Path | None = None,
    branch: Branch | None = None,
    program: tuple[str, ...] = WORKER,
) -> tuple[int, list[Line]]:
    """Exit code and report lines of the real worker process.

    With a ``snapshot`` it goes on from there; with a ``branch`` too, it begins one from there.
    """
    (folder / "output").mkdir()
    resolved, _ = plan.resolve(plan.parse(document))
    (folder / "plan.json").write_text(json.dumps(resolved))
    environment = os.environ | {
        "TRAINLEDGER_PLAN": str(folder / "plan.json"),
        "TRAINLEDGER_SPOOL": str(folder / "spool.jsonl"),
        "TRAINLEDGER_OUTPUT": str(folder / "output"),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    if branch is not None:
        environment |= {"TRAINLEDGER_ORIGIN": str(snapshot), "TRAINLEDGER_BRANCH": branch}
    elif snapshot is not None:
        environment["TRAINLEDGER_RESTORE"] = str(snapshot)
    ended = subprocess.run([sys.executable, *program], check=False, cwd=REPOSITORY, env=environment)
    return ended.returncode, said(folder / "spool.jsonl")


def train_here(
    folder: Path,
    document: dict[str, Any],
    *,
    requests: Callable[[], Request | None] = nothing_asked,
    snapshot: Path | None = None,
    branch: Branch | None = None,
    cache: Path | None = None,
) -> list[Line]:
    """The report lines of a training inside this process, stopped or not.

    With a ``snapshot`` it goes on from there; with a ``branch`` too, it begins one from there.
    """
    folder.mkdir(exist_ok=True)
    parsed = plan.parse(document)
    reporter = Reporter(folder / "spool.jsonl")
    sft = import_module("engine.worker.trl.sft")
    with contextlib.suppress(StoppedError):
        sft.train(
            parsed,
            prepare(parsed, Means(reporter, cache=cache, go_on=lambda: None)),
            reporter,
            output=folder,
            requests=requests,
            start=None if snapshot is None else Start(snapshot, branch or "resume"),
        )
    return said(folder / "spool.jsonl")


def said(spool: Path) -> list[Line]:
    """The lines of a spool; each of them is a report."""
    lines = spool.read_text().splitlines()
    assert all(reports.parse(line) for line in lines)
    return [json.loads(line) for line in lines]


def of_kind(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["kind"] == kind]


def updates(lines: list[Line]) -> list[Line]:
    """The step reports of updates, without the trainer's closing numbers."""
    return [line for line in of_kind(lines, "step") if "loss" in line["measured"]]


def numbers(lines: list[Line]) -> dict[tuple[str, int], dict[str, Any]]:
    """Everything measured, but not how long it took."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for line in of_kind(lines, "step") + of_kind(lines, "validation"):
        place = found.setdefault((line["kind"], line["step"]), {})
        place |= {
            name: value
            for name, value in line["measured"].items()
            if not name.endswith(("_runtime", "_per_second"))
        }
    return found


def after(step: int, lines: list[Line]) -> dict[tuple[str, int], dict[str, Any]]:
    return {place: each for place, each in numbers(lines).items() if place[1] > step}


def adapter_of(lines: list[Line]) -> str:
    (model,) = of_kind(lines, "model")
    return str(model["sha256"])
