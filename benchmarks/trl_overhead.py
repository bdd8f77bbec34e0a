"""What reporting costs: TRL's updates with our callback against the same updates without it.

    python benchmarks/trl_overhead.py [--rounds 5] [--updates 4]

Both trainings run in this process, in turns, on the CPU with one thread; what is compared is the
CPU time of the process for each update, and the ratio is the median over the rounds.
"""

import argparse
import contextlib
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch counts the cores
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import LoraConfig  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import SFTConfig, SFTTrainer  # noqa: E402

from engine.client import Reporter  # noqa: E402
from engine.prepare import base_model  # noqa: E402
from engine.prepare.preparation import Means, prepare  # noqa: E402
from engine.worker.trl import base, config  # noqa: E402
from engine.worker.trl.callback import ReportSteps  # noqa: E402
from engine.worker.trl.order import Order  # noqa: E402
from engine.worker.trl.ranks import Ranks  # noqa: E402
from ledger.plan import Plan, parse  # noqa: E402

MODEL = ROOT / ".cache" / "models" / "smollm2-135m-instruct"
DATA = ROOT / "examples" / "triage" / "train.jsonl"


class Clock(TrainerCallback):
    """The CPU time of the process after each update."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        """The last call of an update; the closing one has no loss."""
        if "loss" in logs:
            self.seconds.append(time.process_time())

    def per_update(self) -> float:
        """Median over the updates after the first, which warms up."""
        return statistics.median(b - a for a, b in itertools.pairwise(self.seconds))


def main() -> None:
    """Print each round, then the medians."""
    options = parse_options()
    plan = example_plan(options.updates + 1)
    tokens = example_tokens(plan)
    ratios, shares = [], []
    for number in range(1, options.rounds + 1):
        plain = train(plan, tokens, [])
        report, spent = timed(report_steps())
        reported = train(plan, tokens, [report])
        inside = sum(spent) / (options.updates + 1)
        ratios.append(reported / plain)
        shares.append(inside / plain)
        print(
            f"round {number}: {plain:.3f} s without, {reported:.3f} s with the callback, "
            f"ratio {ratios[-1]:.4f}; {inside * 1000:.1f} ms inside it"
        )
    print(f"median ratio                      {statistics.median(ratios):.4f}")
    print(f"median share inside the callback  {statistics.median(shares):.4f}")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=4, help="counted updates of each training")
    return parser.parse_args()


def example_plan(updates: int) -> Plan:
    """The demo's plan, for a few updates and without validation."""
    document = yaml.safe_load((ROOT / "examples" / "triage" / "plan.yaml").read_text())
    del document["validation"]
    document["baseModel"], document["dataset"] = str(MODEL), str(DATA)
    document["config"]["maxSteps"] = updates
    return parse(document)


def example_tokens(plan: Plan) -> Dataset:
    """The demo's rows, as the worker prepares them."""
    means = Means(Reporter(os.devnull), cache=None, go_on=lambda: None)
    kept = prepare(plan, means).training
    return Dataset(kept.table.select(["input_ids", "labels"]))


def report_steps() -> ReportSteps:
    """The worker's callback, with its lines going to a file that nobody keeps."""
    reporter = Reporter(tempfile.NamedTemporaryFile(delete=False).name)  # noqa: SIM115
    return ReportSteps(
        reporter,
        validates=False,
        announce=lambda model, optimizer, total: None,  # noqa: ARG005
        order=Order(rows=1, seed=0, per_update=1, per_micro_batch=1),
        ranks=Ranks(),
    )


def timed(callback: TrainerCallback) -> tuple[TrainerCallback, list[float]]:
    """The callback, and a list that gets the CPU seconds of each of its calls."""
    spent: list[float] = []

    def measuring(call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            answer = call(*args, **kwargs)
            spent.append(time.process_time() - began)
            return answer

        return measured

    for name in [each for each in dir(callback) if each.startswith("on_")]:
        setattr(callback, name, measuring(getattr(callback, name)))
    return callback, spent


def train(plan: Plan, tokens: Dataset, callbacks: list[TrainerCallback]) -> float:
    """CPU seconds of one update."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        SFTTrainer(
            model=base.load_model(plan.base_model, plan.config),
            args=SFTConfig(**config.sft_arguments(plan, folder=Path(folder), on_gpu=False)),
            train_dataset=tokens,
            processing_class=base_model.load_tokenizer(plan.base_model),
            peft_config=LoraConfig(**config.lora_arguments(plan.config.lora)),
            callbacks=[*callbacks, clock],
        ).train()
    return clock.per_update()


if __name__ == "__main__":
    main()
