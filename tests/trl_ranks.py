"""Trainings over several ranks for tests: processes that share one start of the libraries.

A server process loads the libraries once and is forked for each rank, so a rank costs what it
trains. Each is the worker from where it has met the others on; the runner has tests of its own.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from engine.client import Reporter
from engine.errors import StoppedError
from engine.prepare.preparation import Means, prepare
from engine.worker.start import Start
from ledger import plan
from tests.trl_runs import Line, Request, said

T = TypeVar("T")

PATIENCE_SECONDS = 120.0

Wish = Request | Literal["stand still"]

Rows = dict[int, list[list[int]]]  # by update: the tokens of each row that went into it, sorted


class Trained(NamedTuple):
    """What the ranks of one training left."""

    folder: Path
    lines: list[Line]  # of rank 0
    others: list[list[Line]]
    rows: Rows  # of all ranks
    codes: list[int | None]


def processes() -> BaseContext:
    """Where ranks come from; its first process loads the libraries."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["engine.worker.trl.sft", "engine.worker.trl.__main__", __name__]
    )
    return context


def apart(work: Callable[..., T], *arguments: Any) -> T:
    """What ``work`` returns in a process that has the libraries already."""
    ours, theirs = multiprocessing.Pipe()
    process = processes().Process(  # type: ignore[attr-defined]
        target=_answer, args=(theirs, work, arguments)
    )
    process.start()
    theirs.close()
    answer: T = ours.recv()
    process.join()
    return answer


def _answer(to: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    to.send(work(*arguments))


def train_ranks(
    folder: Path,
    document: dict[str, Any],
    *,
    snapshot: Path | None = None,
    asking: tuple[int, Wish, int] | None = None,
    patience: float = PATIENCE_SECONDS,
    before_save: Callable[[float], None] | None = None,
) -> Trained:
    """Train on as many ranks as the plan has devices.

    With a ``snapshot``, go on from there. ``asking``: which rank is asked for what, once rank 0 has
    reported which update; one that is to stand still is killed once the others have ended.
    ``patience``: seconds that the ranks wait for each other. ``before_save``: what rank 0 does
    before it writes a snapshot.
    """
    folder.mkdir(exist_ok=True)
    count = document["execution"].get("devices", 1)
    context = processes()
    ranks = [
        context.Process(  # type: ignore[attr-defined]
            target=_rank,
            args=(folder, document, (rank, count, patience), snapshot, asking, before_save),
        )
        for rank in range(count)
    ]
    for each in ranks:
        each.start()
    still = asking[0] if asking is not None and asking[1] == "stand still" else None
    for each in [each for rank, each in enumerate(ranks) if rank != still]:
        each.join(PATIENCE_SECONDS)
    if still is not None:
        ranks[still].kill()
        ranks[still].join()
    lines = [said(folder / f"rank{rank}.jsonl") for rank in range(count)]
    rows: Rows = {}
    for rank in range(count):
        for line in (folder / f"rows{rank}.jsonl").read_text().splitlines():
            step, taken = json.loads(line)
            rows.setdefault(step, []).extend(taken)
    return Trained(
        folder,
        lines[0],
        lines[1:],
        {step: sorted(taken) for step, taken in rows.items()},
        [each.exitcode for each in ranks],
    )


def _rank(
    folder: Path,
    document: dict[str, Any],
    place: tuple[int, int, float],
    snapshot: Path | None,
    asking: tuple[int, Wish, int] | None,
    before_save: Callable[[float], None] | None,
) -> None:
    """One rank, in a process of its own."""
    rank, count, patience = place
    gc.freeze()  # what the libraries left is looked through once, and not copied for it
    met_at = folder / "rendezvous"
    named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    named |= {"TRAINLEDGER_RENDEZVOUS": met_at}
    if count > 1:
        os.environ.update({name: str(value) for name, value in named.items()})
    os.environ.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    import_module("torch").set_num_threads(1)
    parsed = plan.parse(document)
    reporter = Reporter(folder / f"rank{rank}.jsonl")
    placed = import_module("engine.worker.trl.settings").Place(rank, count, met_at, patience)
    means = Means(reporter, cache=None, go_on=lambda: None)
    data = prepare(parsed, means) if rank == 0 else None
    ranks = import_module("engine.worker.trl.ranks").Ranks(placed)
    _record_rows(folder / f"rows{rank}.jsonl")
    if before_save is not None:
        _do_before_saving(lambda: before_save(patience))
    frame = import_module("engine.worker.trl.__main__")
    try:
        with contextlib.suppress(StoppedError):
            import_module("engine.worker.trl.sft").train(
                parsed,
                frame.share(data, ranks),
                reporter,
                output=folder,
                requests=_asked(folder, rank, asking),
                start=None if snapshot is None else Start(snapshot, "resume"),
                ranks=ranks,
            )
        ranks.part()
    except RuntimeError as error:
        traceback.print_exception(error)
        os._exit(frame.fail(reporter, error))  # as the worker, which no library holds up


def _asked(
    folder: Path, rank: int, asking: tuple[int, Wish, int] | None
) -> Callable[[], Request | None]:
    spool = folder / "rank0.jsonl"
    if asking is None or asking[0] != rank:
        return lambda: None
    _, wish, step = asking

    def asked() -> Request | None:
        if f'"step":{step},"stepSeconds"' not in spool.read_text():
            return None
        if wish == "stand still":
            os.kill(os.getpid(), signal.SIGSTOP)
            return None
        return wish

    return asked


def _do_before_saving(work: Callable[[], None]) -> None:
    saver = import_module("engine.worker.trl.saving").Saver
    write = saver._write

    def _write(self: Any, *args: Any) -> Any:
        work()
        return write(self, *args)

    saver._write = _write


def _record_rows(path: Path) -> None:
    """Write down the tokens of every row that is trained, without padding."""
    trainer = import_module("engine.worker.trl.trainer").MeasuringTrainer
    is_idle = import_module("engine.worker.trl.loading").is_idle
    train = trainer.training_step
    path.touch()

    def training_step(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        rows = [
            ids[mask.bool()].tolist()
            for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)
        ]
        with path.open("a") as file:
            file.write(json.dumps([self.step + 1, [] if is_idle(inputs) else rows]) + "\n")
        return train(self, model, inputs, *args, **kwargs)

    trainer.training_step = training_step
